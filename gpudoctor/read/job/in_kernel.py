"""Environment and command line of a process that waits in the kernel (state D), read in a child process.

Both take the lock of its memory, which what it waits for may hold: then the child waits too, and is ended. A signal
ends that wait from Linux 5.3 on (mmap_sem is taken by down_read_killable in access_remote_vm, mm/memory.c); on an older
kernel nothing is read.
"""

import contextlib
import os
from typing import NamedTuple

import msgspec

from gpudoctor.read import apart
from gpudoctor.read.job.environment_now import as_set
from gpudoctor.read.process import THIS
from gpudoctor.read.system import System

KILLABLE = (5, 3)
SECONDS = 0.7
MOST_ASKED = 24
"""Of a node; a storage that is gone holds all of its processes, and one answer is waited for at a time."""
MOST_BYTES = 1024 * 1024


class OfWaiting(NamedTuple):
    """As the kernel gives them."""

    environment: bytes
    command: bytes


class InKernel:
    """Asks a child, which is started when it is first needed and ended by `end`."""

    def __init__(self, system: System) -> None:
        self._child = apart.Apart(__name__, "processes that wait in the kernel") if _may_ask(system) else None
        self._left = MOST_ASKED

    def read(self, pid: int) -> OfWaiting | None:
        """None where it cannot be told within `SECONDS`."""
        if self._child is None or self._left <= 0:
            return None
        self._left -= 1
        try:
            told = self._child.ask(str(pid).encode(), SECONDS)
            return OfWaiting(*msgspec.msgpack.decode(told, type=tuple[bytes, bytes]))
        except (apart.NotAnswered, msgspec.DecodeError):
            return None

    def end(self) -> None:
        if self._child is not None:
            self._child.end()


def _may_ask(system: System) -> bool:
    """Of this machine itself, and on a kernel where the child can be ended."""
    numbers = os.uname().release.split("-")[0].split(".")[:2] if hasattr(os, "uname") else []
    release = tuple(int(part) for part in numbers if part.isdecimal())
    return str(system.root) == "/" and system.is_linux and release >= KILLABLE


def answer(request: bytes) -> bytes:
    """Raises `OSError`."""
    pid = int(request)
    environment, command = (THIS.raw(f"/proc/{pid}/{name}", MOST_BYTES) for name in ("environ", "cmdline"))
    with contextlib.suppress(TimeoutError):
        environment = as_set(THIS, pid, THIS.text(f"/proc/{pid}/comm"), environment)
    return msgspec.msgpack.encode((environment, command))


main = apart.serving(answer)
