"""A log that is read ahead by a thread: a dead file system, a FIFO without a writer or a file of holes stops nobody."""

import contextlib
import errno
import os
import queue
import stat
import threading

from gpudoctor import bounded

PIECE = 1024 * 1024
AHEAD = 2
"""Pieces that are read before they are wanted."""
GROWTH = 256 * 1024 * 1024
"""Bytes by which a file may grow while it is read: one that is written to faster than it is read has no end."""
LISTENS_SECONDS = 3600.0
"""A wait for a pipe is begun anew after so long; whoever writes to it may be silent for hours."""


class Stream:
    """`read` gives what comes next, at most so many bytes. Raises `bounded.Refused` where nothing comes any more."""

    def __init__(self, path: str) -> None:
        self._pieces: queue.Queue[bytes | BaseException] = queue.Queue(AHEAD)
        self._rest = b""
        self._is_pipe = False
        self._is_over = False
        self._closed = threading.Event()
        threading.Thread(target=self._run, args=(path,), daemon=True, name="reads a log").start()
        self._rest = self._next()  # what cannot be opened is said at once

    def read(self, size: int = -1) -> bytes:
        if not self._rest and not self._is_over:
            self._rest = self._next()
        count = len(self._rest) if size < 0 else size
        piece, self._rest = self._rest[:count], self._rest[count:]
        return piece

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(queue.Empty):
            while True:
                self._pieces.get_nowait()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> bytes:
        while True:
            try:
                piece = self._pieces.get(timeout=LISTENS_SECONDS if self._is_pipe else bounded.FILE_SECONDS)
                break
            except queue.Empty:
                if not self._is_pipe:
                    raise bounded.Refused(
                        f"its file system has not answered for {bounded.FILE_SECONDS:.0f} s"
                    ) from None
        if isinstance(piece, BaseException):
            self._is_over = True
            raise piece
        self._is_over = not piece
        return piece

    # ------------------------------------------------------------ the thread

    def _run(self, path: str) -> None:
        try:
            descriptor = bounded.opened(path)
            try:
                self._all_of(descriptor)
            finally:
                os.close(descriptor)
            self._say(b"")
        except Exception as error:
            self._say(error)

    def _all_of(self, descriptor: int) -> None:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            bounded.wait_for_writer(descriptor)
            self._is_pipe = True
        at, end = 0, 0
        left = most = min(bounded.LOG.size, about.st_size + GROWTH if about.st_size else bounded.LOG.size)
        while not self._closed.is_set():
            if self._is_pipe and not bounded.readable(descriptor, 1.0):
                continue
            if not self._is_pipe and at == end:
                at, end = _next_written(descriptor, at)
            try:
                piece = os.read(descriptor, PIECE if self._is_pipe or end <= at else min(PIECE, end - at))
            except BlockingIOError:
                continue
            if not piece:
                if at and left == most:  # a hole and nothing else reads as zero bytes, and is not empty
                    self._say(b"\0")
                return
            at += len(piece)
            end = max(at, end)
            left -= len(piece)
            self._say(piece)
            if left <= 0:
                raise bounded.TooLarge(f"only its first {most / bounded.GIB:.1f} GiB were read")

    def _say(self, piece: bytes | BaseException) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._pieces.put(piece, timeout=1.0)
                return


def _next_written(descriptor: int, at: int) -> tuple[int, int]:
    """Where the next bytes begin that were written, and how far they go: a log that is cut to nothing while a program
    writes on begins with a hole, which may have terabytes."""
    if not hasattr(os, "SEEK_DATA"):
        return at, at
    try:
        begin = os.lseek(descriptor, at, os.SEEK_DATA)
        end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        os.lseek(descriptor, begin, os.SEEK_SET)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing more was written
            at = os.lseek(descriptor, 0, os.SEEK_END)
        return at, at  # or the file system cannot tell
    return begin, end
