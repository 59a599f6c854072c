"""In a child process: a folder of dumps listed, or one dump read."""

from typing import Literal

import msgspec
from msgspec import Struct, field

from gpudoctor.read import apart
from gpudoctor.read.job import recorder_files
from gpudoctor.snapshot.evidence import Recorder, Unread


class DumpRequest(Struct):
    """As JSON in one line; the bytes of a dump that was read already follow it."""

    kind: Literal["folder", "file", "bytes"]
    place: bytes
    """The path of the folder or file, any bytes."""
    rank: int = -1
    source: str = ""
    written_at: float = 0.0


class Listed(Struct):
    dumps: list[tuple[bytes, int]] = field(default_factory=list)
    """Path and rank."""
    unread: list[Unread] = field(default_factory=list)


class DumpAnswer(Struct):
    recorder: Recorder | None = None
    unread: Unread | None = None


def answer(request: bytes) -> bytes:
    """Raises `UnreadableDump` for bytes that are none."""
    head, _, raw = request.partition(b"\n")
    asked = msgspec.json.decode(head, type=DumpRequest)
    path = recorder_files.path_of(asked.place)
    if asked.kind == "folder":
        dumps, unread = recorder_files.listed(path)
        return msgspec.json.encode(Listed([(recorder_files.name_of(path), rank) for path, rank in dumps], unread))
    if asked.kind == "bytes":
        return msgspec.json.encode(DumpAnswer(recorder_files.read(raw, asked.source, asked.written_at)))
    dump = recorder_files.of_file(path, asked.rank)
    made = DumpAnswer(recorder=dump) if isinstance(dump, Recorder) else DumpAnswer(unread=dump)
    return msgspec.json.encode(made)


main = apart.serving(answer)
