"""In a child process: one file of a user's program, opened as the process would, and what stands around one line."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from gpudoctor.read import apart
from gpudoctor.read.job import source
from gpudoctor.read.job.files import InsideReader
from gpudoctor.snapshot.evidence import Frame, SourceContext


class SourceRequest(Struct):
    pid: int
    frame: Frame


class SourceAnswer(Struct):
    context: SourceContext | None


def answer(request: bytes) -> bytes:
    """Raises `ValueError` with the reason where the file is too much for a parser."""
    asked = msgspec.json.decode(request, type=SourceRequest)
    try:
        return msgspec.json.encode(SourceAnswer(source.context(asked.frame, InsideReader(asked.pid))))
    except (MemoryError, RecursionError):  # Python's parser says the one for the other
        raise ValueError("it is nested too deeply, or parsing it takes more than 512 MiB of memory") from None


def main(arguments: Sequence[str]) -> None:
    del arguments
    apart.serve(answer)
