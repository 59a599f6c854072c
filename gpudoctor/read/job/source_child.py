"""In a child process: one file of a user's program, opened as the process would, and what stands around one line."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from gpudoctor.read import apart
from gpudoctor.read.job import source
from gpudoctor.read.job.files import Reader
from gpudoctor.snapshot.evidence import Frame, SourceContext


class Request(Struct):
    pid: int
    frame: Frame


class Answer(Struct):
    context: SourceContext | None


def answer(request: bytes) -> bytes:
    """Raises `ValueError` with the reason where the file is too much for a parser."""
    asked = msgspec.json.decode(request, type=Request)
    try:
        return msgspec.json.encode(Answer(source.context(asked.frame, Reader(asked.pid))))
    except (MemoryError, RecursionError):  # Python's parser says the one for the other
        raise ValueError("it is nested too deeply, or parsing it takes more than 512 MiB of memory") from None


def main(arguments: Sequence[str]) -> None:
    del arguments
    apart.serve(answer)
