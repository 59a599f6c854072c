"""Whole lines out of a stream of bytes, bounded in length."""

import os
from collections.abc import Iterator

from gpudoctor.fleet.messages import MAXIMUM_LINE_BYTES

CHUNK_BYTES = 1 << 16


class TooLong(Exception):
    """More than `MAXIMUM_LINE_BYTES` came without a line's end: the other side is not speaking our language."""


class ArrivingLines:
    """Feed it what arrived; it gives the lines that are complete, without their end."""

    def __init__(self, maximum: int = MAXIMUM_LINE_BYTES) -> None:
        self._maximum = maximum
        self._parts: list[bytes] = []
        self._length = 0

    @property
    def rest(self) -> bytes:
        """What came after the last line's end."""
        return b"".join(self._parts)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes. Raises `TooLong`."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)  # joined once, when the line ends: a long line costs no more than its length
        self._length += len(first)
        if self._length > self._maximum:
            raise TooLong(f"a line of more than {self._maximum} bytes")
        if not others:
            return []
        complete = [self.rest, *others[:-1]]
        self._parts, self._length = [others[-1]], len(others[-1])
        return complete


def lines_of(descriptor: int) -> Iterator[bytes]:
    """The lines of a file descriptor until its end. Raises `TooLong` and `OSError`.

    Not a buffered file: a thread that waits in one keeps the interpreter from exiting.
    """
    lines = ArrivingLines()
    while chunk := os.read(descriptor, CHUNK_BYTES):
        yield from lines.feed(chunk)


def write_all(descriptor: int, line: bytes) -> None:
    """Write all of it. Raises `OSError`."""
    view = memoryview(line)
    while view:
        view = view[os.write(descriptor, view) :]
