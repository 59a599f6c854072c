"""What a foreign file may cost: bytes, seconds and memory. Every file that a user names is opened and read here.

A file may be a FIFO that nobody writes to, a device without an end, a folder on a dead server, or a text made to keep
its reader busy. `opened` never waits; `contents` reads so much and so long and no more; what a process spends on what
it has read is bounded by gpudoctor/cost.py. Whoever meets a bound says which.
"""

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

from gpudoctor import threads

MIB = 1024 * 1024
GIB = 1024 * MIB
T = TypeVar("T")


class Bound(NamedTuple):
    """Of one kind of input."""

    size: int
    """Bytes that are read."""
    seconds: int
    """Of computing on it: of one processor, so that a loaded machine does not count."""
    memory: int
    """Bytes of address space beyond what the process had before."""


SNAPSHOT = Bound(64 * MIB, 60, 2 * GIB)
"""check, devices, env, topology --from: a machine with 16 GPUs has 1 MiB and takes half a second."""
ANSWER = Bound(64 * MIB, 60, 2 * GIB)
"""amp, nccl-test, train-test --from: what --json wrote; 1,024 ranks have 3 MiB."""
EVIDENCE = Bound(512 * MIB, 300, 6 * GIB)
"""hang --from: 1,024 ranks have 100 MB."""
SCRIPT = Bound(MIB, 60, 2 * GIB)
"""lint, its --env, and the manifests, hostfiles and Python sources that it reads."""
HOSTFILE = Bound(4 * MIB, 60, 2 * GIB)
"""--hostfile of every command; it is read at the same time as other nodes are asked, so that only its size counts."""
LOG = Bound(256 * GIB, 60, 2 * GIB)
"""explain: of one file; seconds are those without a block (1 MiB) read to its end."""
LISTED = Bound(512 * MIB, 5, 256 * MIB)
"""checkpoint: names, shapes and values, without the numbers of tensors. For each byte of them there is more, below."""
LISTED_SECONDS = 5.0
"""For each MiB of them; 1.2 are needed (measured with 20,000 tensors)."""
LISTED_MEMORY = 64
"""Bytes for each byte of them; 5 are needed (measured with 20,000 tensors)."""
LISTED_MOST_MEMORY = 4 * GIB
NUMBERS_SECONDS = 0.0625
"""For each MiB of numbers that is read or written; 0.003 to 0.012 are needed (measured)."""

ANSWER_SECONDS = 10.0
"""Until a file system has told what is there by a name."""
FILE_SECONDS = 60.0
"""Until a regular file was read; then its file system is taken for dead."""
WRITER_SECONDS = 10.0
"""Until somebody opens a FIFO for writing."""
PIPE_SECONDS = 600.0
"""Until a pipe, a FIFO or standard input has come to its end: what writes it may examine a machine first."""
PIECE = MIB


class Refused(Exception):
    """Why a file is not read, or not to its end: a phrase, without the file's name and a final period."""


class TooLarge(Refused):
    """It has more bytes than are read."""


# ---------------------------------------------------------------- opening and reading


def opened(path: str | Path, *, links: bool = True, dir_fd: int | None = None) -> int:
    """A descriptor to read from. It never waits for a FIFO's writer. Raises `OSError` and `ValueError`.

    `links`: whether a symlink at its place is followed.
    """
    flags = os.O_RDONLY | (0 if links else getattr(os, "O_NOFOLLOW", 0))
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
        flags |= getattr(os, name, 0)
    return os.open(path, flags, dir_fd=dir_fd)


def what_it_is(mode: int) -> str:
    """A file's kind in words, of its `st_mode`; empty for a regular one."""
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a disk"),
        (stat.S_ISCHR, "a device"),
    )
    return next((words for is_it, words in kinds if is_it(mode)), "")


def regular(path: str | Path, *, links: bool = True) -> int:
    """A descriptor of a regular file. Raises `OSError`, `ValueError`, and `Refused` for anything else."""
    descriptor = opened(path, links=links)
    try:
        kind = what_it_is(os.fstat(descriptor).st_mode)
        if kind:
            raise Refused(f"it is {kind} and no regular file")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def must_answer(names: Iterable[str]) -> None:
    """Asks for each of these, whatever they are, as a file. Raises `Refused`, with the name, where its file system does
    not answer: one on a dead server would hold up whoever opens it for ever."""
    asked, until = "", time.monotonic() + ANSWER_SECONDS

    def ask() -> None:
        nonlocal asked
        for asked in names:
            with contextlib.suppress(OSError, ValueError):
                about = Path(asked).stat()
                # What it is may be known here from before. /proc's have no size, and some are used up by reading.
                if stat.S_ISREG(about.st_mode) and about.st_size:
                    with Path(asked).open("rb", buffering=0) as file:
                        file.read(1)

    try:
        threads.answer(ask, lambda: until)
    except threads.NoAnswer:
        raise Refused(f"{asked}: its file system has not answered for {ANSWER_SECONDS:.0f} s") from None
    except RuntimeError:  # no thread may be started (ulimit -u)
        pass


def contents(path: str, most: int) -> bytes:
    """The bytes of a file, or of standard input for "-". Raises `Refused`."""
    if path == "-":
        return _standard_input(most)

    def whole(clock: _Clock) -> bytes:
        descriptor = opened(path)
        try:
            return _read(descriptor, most, clock, is_named=True)
        finally:
            os.close(descriptor)

    try:
        return _in_time(whole)
    except FileNotFoundError:
        raise Refused("there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise Refused(reason(error, path)) from None


def reason(error: OSError | ValueError, path: str = "") -> str:
    """Why opening or reading failed, as a phrase."""
    if isinstance(error, OSError) and error.errno == errno.ENXIO:
        return "it is a socket, or a device that is not there"
    # Windows says PermissionError of folders
    if isinstance(error, IsADirectoryError) or (isinstance(error, PermissionError) and path and Path(path).is_dir()):
        return "it is a folder; name a file in it"
    if isinstance(error, PermissionError):
        return "permission denied"
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"


def _standard_input(most: int) -> bytes:
    if sys.stdin is None:
        raise Refused("standard input is closed")
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # a test's, in memory
        return _not_larger(sys.stdin.buffer.read(most + 1), most)
    if os.isatty(descriptor):
        print("gpudoctor: reading standard input; Ctrl-D ends it", file=sys.stderr)
    try:
        return _in_time(lambda clock: _read(descriptor, most, clock, is_named=False))
    except OSError as error:
        raise Refused(reason(error)) from None


class _Clock:
    """Until when a read may be silent. Its reader moves it on."""

    def __init__(self) -> None:
        self.goes_on(FILE_SECONDS)

    def goes_on(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds


def _in_time(work: Callable[[_Clock], T]) -> T:
    """What `work` gives."""
    clock = _Clock()
    try:
        return threads.answer(lambda: work(clock), lambda: clock.until, "reads a file")
    except threads.NoAnswer:
        raise Refused(f"its file system has not answered for {FILE_SECONDS:.0f} s") from None


def _read(descriptor: int, most: int, clock: _Clock, *, is_named: bool) -> bytes:
    about = os.fstat(descriptor)
    if stat.S_ISDIR(about.st_mode):
        raise Refused("it is a folder; name a file in it")
    if _is_null(about):
        return b""
    if stat.S_ISBLK(about.st_mode) or (stat.S_ISCHR(about.st_mode) and (is_named or not os.isatty(descriptor))):
        raise Refused(f"it is {what_it_is(about.st_mode)} and no file")
    is_stream = not stat.S_ISREG(about.st_mode)
    clock.goes_on(2 * (PIPE_SECONDS if is_stream else FILE_SECONDS))  # a stream is waited for below
    if is_stream and is_named:
        wait_for_writer(descriptor)
    end = time.monotonic() + PIPE_SECONDS
    pieces: list[bytes] = []
    left = most + 1
    while left > 0:
        if time.monotonic() > end or (is_stream and not readable(descriptor, end - time.monotonic())):
            raise Refused(f"it has not come to its end within {PIPE_SECONDS:.0f} s")
        try:
            piece = os.read(descriptor, min(left, PIECE))
        except BlockingIOError:
            continue
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
        if not is_stream:
            clock.goes_on(FILE_SECONDS)
    return _not_larger(b"".join(pieces), most)


def _is_null(about: os.stat_result) -> bool:
    """/dev/null, a file without contents, by its number."""
    return stat.S_ISCHR(about.st_mode) and sys.platform == "linux" and about.st_rdev == os.makedev(1, 3)


def _not_larger(raw: bytes, most: int) -> bytes:
    if len(raw) > most:
        raise TooLarge(f"it is larger than {most // MIB} MiB, the most that is read")
    return raw


def wait_for_writer(descriptor: int) -> None:
    """Wait until a FIFO has something, or had a writer. Raises `Refused`."""
    if not readable(descriptor, WRITER_SECONDS):
        raise Refused(f"it is a FIFO, and nobody has written to it for {WRITER_SECONDS:.0f} s")


def readable(descriptor: int, seconds: float) -> bool:
    """Wait until there is something to read, or the end. A FIFO that had no writer yet has neither."""
    import select  # Windows has it too, without poll

    if not hasattr(select, "poll"):
        return True
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
    return bool(waiting.poll(max(0.0, seconds) * 1000))
