"""Where the command writes: what of it passes through the relay, and how.

The command keeps its session, its process group, its terminal and its standard input: a pseudo-terminal of its own in
a session of its own would take job control, Ctrl-Z and /dev/tty from it. Only where it *writes* something stands
between:

- a terminal: a pseudo-terminal that is nobody's controlling terminal. To the command it is a terminal (progress bars,
  colours, the width); it changes no byte, for the real one does that. Nobody can be hung up by its end.
- a pipe or socket: a pipe. Standard output and error that are one stay one, so that their order stays.
- a file: nothing. The command writes it itself, a full disk is told to itself, and we read that file afterwards.
- anything else (/dev/null), or where no pipe can be had: nothing, and nothing is kept of it.
"""

import contextlib
import errno
import os
import stat
from typing import Literal

from msgspec import Struct

OUTPUTS = (1, 2)
WIDE = 1 << 20
"""Bytes of a pipe of ours: the most that an unprivileged user may ask for (pipe(7), pipe-max-size)."""
MOST_KEPT = 12 * 1024 * 1024
"""Of a file that the command writes itself: as much as of what passes through the relay."""


class Outlet(Struct, frozen=True, kw_only=True):
    """One way out of the command."""

    kind: Literal["terminal", "pipe", "file"]
    outputs: tuple[int, ...]
    """Of the command's descriptors 1 and 2; the first is where it goes on to."""
    reading: int = -1
    writing: int = -1
    """-1 for a file."""
    path: str = ""
    """Of a file: what opens it again."""
    start: int = 0
    """Of a file: where the command begins to write."""


def channels(*, captured: bool) -> tuple[Outlet, ...]:
    """What becomes of standard output and error. Without `captured` the command has all of it as it is."""
    outlets: list[Outlet] = []
    seen: dict[tuple[int, ...], list[int]] = {}
    for number in OUTPUTS:
        with contextlib.suppress(OSError):  # started with it closed
            status = os.fstat(number)
            seen.setdefault((status.st_dev, status.st_ino, status.st_rdev), []).append(number)
    for numbers in seen.values():
        with contextlib.suppress(OSError):  # too few descriptors, no /dev/pts: it writes where it would have written
            if channel := _of(tuple(numbers), captured=captured):
                outlets.append(channel)
    return tuple(outlets)


def _of(numbers: tuple[int, ...], *, captured: bool) -> Outlet | None:
    status = os.fstat(numbers[0])
    if stat.S_ISREG(status.st_mode):
        path = f"/proc/self/fd/{numbers[0]}"
        return Outlet(kind="file", outputs=numbers, path=path, start=_position(numbers[0], status.st_size))
    if not captured:
        return None
    if os.isatty(numbers[0]):
        reading, writing = _terminal_like(numbers[0])
        kind: Literal["terminal", "pipe"] = "terminal"
    elif stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
        reading, writing = os.pipe()
        _widen(reading)
        kind = "pipe"
    else:
        return None
    os.set_blocking(reading, False)
    return Outlet(kind=kind, outputs=numbers, reading=reading, writing=writing)


def _widen(pipe: int) -> None:
    """So that who writes much is seldom woken. Where the user's pipes hold too much already it stays as it is."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, WIDE)


def _position(number: int, size: int) -> int:
    """Where in a file the next byte goes."""
    import fcntl

    return size if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND else os.lseek(number, 0, os.SEEK_CUR)


def _terminal_like(number: int) -> tuple[int, int]:
    """A pseudo-terminal with the size and settings of this one, that passes every byte as it is."""
    import termios

    reading, writing = os.openpty()
    try:
        attributes = termios.tcgetattr(number)
        attributes[1] &= ~termios.OPOST
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(writing, termios.TCSANOW, attributes)
    except termios.error as error:
        os.close(reading)
        os.close(writing)
        raise OSError(errno.ENOTTY, "no terminal") from error
    resize(number, reading)
    return reading, writing


def resize(terminal: int, reading: int) -> bool:
    """Give the pseudo-terminal the size of the real one; whether it had another."""
    import fcntl
    import struct
    import termios

    with contextlib.suppress(OSError, termios.error):
        wanted = os.get_terminal_size(terminal)
        if os.get_terminal_size(reading) != wanted:
            size = struct.pack("HHHH", wanted.lines, wanted.columns, 0, 0)
            fcntl.ioctl(reading, termios.TIOCSWINSZ, size)  # termios.tcsetwinsize is of Python 3.11
            return True
    return False


def part_of(channel: Outlet) -> bytes:
    """Of a file, what the command has written: all, or the first and last of it."""
    try:
        file = os.open(channel.path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # it may be written and not read
        return b""
    try:
        size = os.fstat(file).st_size - channel.start
        if size <= MOST_KEPT:
            return os.pread(file, max(size, 0), channel.start)
        first = os.pread(file, MOST_KEPT // 3, channel.start)
        last = os.pread(file, MOST_KEPT - len(first), channel.start + size - (MOST_KEPT - len(first)))
        return first + b"\n[gpudoctor: %d bytes are left out here]\n" % (size - MOST_KEPT) + last
    except OSError:
        return b""
    finally:
        os.close(file)
