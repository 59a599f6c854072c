"""A checkpoint's file, read in pieces: what is never held whole in memory."""

import os
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor import bounded
from gpudoctor.checkpoint.unreadable import BadFile, DamagedFile
from gpudoctor.knowledge.wording import size as in_words

CHUNK = 4 * 1024 * 1024
"""Bytes at a time; a multiple of every element's size."""


HOLES_MATTER_BYTES = 64 * 1024 * 1024
MOST_HOLES = 200
"""Times its room on the disk that a file may have in bytes; the same as for packed entries (archive.py)."""


class Region(NamedTuple):
    """Where the numbers of a storage lie in a file."""

    offset: int
    size: int
    """Bytes, unpacked."""
    crc: int | None = None
    """CRC-32 that the file promises; None: it promises none."""
    packed: int | None = None
    """Bytes in the file where they are deflated; None: they lie there as they are."""


class OpenFile:
    """An open file. A context manager; every method raises `BadFile`."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.number = bounded.regular(path)
        except bounded.Refused as error:
            kind = "a folder" if "a folder" in str(error) else "no regular file"
            raise BadFile(f"it is {kind}; a checkpoint is a file that can be read at any place") from None
        except FileNotFoundError:
            raise BadFile("there is no such file") from None
        except (OSError, ValueError) as error:
            raise BadFile(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
        about = os.fstat(self.number)
        self.size = about.st_size
        self.identity = (about.st_dev, about.st_ino)
        self.on_disk = getattr(about, "st_blocks", about.st_size) * (512 if hasattr(about, "st_blocks") else 1)
        """Bytes that the file system keeps of it: far fewer than its size where it has holes."""
        self._state = (about.st_size, about.st_mtime_ns)

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.number)

    def read(self, offset: int, count: int) -> bytes:
        """Exactly so many bytes."""
        pieces: list[bytes] = []
        while count > 0:
            try:
                piece = os.pread(self.number, min(count, 1 << 30), offset)
            except OSError as error:
                raise BadFile(f"it cannot be read at byte {offset}: {error.strerror or error}") from None
            if not piece:
                raise DamagedFile(f"it is cut off: it ends at byte {offset}, in the middle of its contents")
            pieces.append(piece)
            offset, count = offset + len(piece), count - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def chunks(self, region: Region) -> Iterator[bytes]:
        """The bytes of a region, unpacked, each piece but the last one of `CHUNK` bytes."""
        if region.packed is None:
            for at in range(0, region.size, CHUNK):
                yield self.read(region.offset + at, min(CHUNK, region.size - at))
        else:
            yield from self._inflated(region, region.packed)

    def _inflated(self, region: Region, packed: int) -> Iterator[bytes]:
        engine = zlib.decompressobj(-15)
        at, left, ready = 0, region.size, b""
        try:
            while left > 0:
                wanted = min(CHUNK, left)
                while len(ready) < wanted:
                    given = engine.unconsumed_tail
                    if not given:
                        count = min(1 << 18, packed - at)
                        given = self.read(region.offset + at, count) if count else b""
                        at += count
                    piece = engine.decompress(given, wanted - len(ready))
                    if not piece and not given:
                        raise DamagedFile("an entry of it unpacks to less than it promises; the file is damaged")
                    ready += piece
                yield ready
                left -= len(ready)
                ready = b""
        except zlib.error:
            raise DamagedFile("an entry of it cannot be unpacked; the file is damaged") from None

    def whole(self, region: Region) -> bytes:
        """All bytes of a small region."""
        return b"".join(self.chunks(region))

    def check_written(self) -> None:
        """Refuse a file that is nearly all holes, before terabytes of zeros are read."""
        if self.size > HOLES_MATTER_BYTES and self.size > MOST_HOLES * max(self.on_disk, 1):
            raise BadFile(
                f"of its {in_words(self.size)} the disk has {in_words(self.on_disk)}: the rest was never written, as "
                "when a download or copy is broken off; fetch or save it again"
            )

    def check_unchanged(self) -> None:
        """Refuse a file that somebody wrote to meanwhile."""
        about = os.fstat(self.number)
        if (about.st_size, about.st_mtime_ns) != self._state:
            raise BadFile("it was written to while it was read; wait until the job has saved it")
