"""Locks on files (flock, fcntl): which ones a process holds, and whose it waits for. Files are not touched.

/proc/PID/fdinfo/FD tells the locks of an open file, and /proc/locks who holds and who waits (proc(5)).
"""

import re
from collections.abc import Mapping

from gpudoctor.lazy import lazy_re
from gpudoctor.read.process import look
from gpudoctor.read.system import System
from gpudoctor.snapshot.holds import AwaitedLock

HELD = lazy_re(r"^lock:\s*\d+:\s+(?!->)(?:FLOCK|POSIX|OFDLCK)\s", re.MULTILINE)
INODE = lazy_re(r"^ino:\s*([0-9]{1,20})$", re.MULTILINE)
LINE = lazy_re(
    r"^([0-9]{1,12}): (-> )?\s*(?:FLOCK|POSIX|OFDLCK)\s+\S+\s+\S+\s+(-?[0-9]{1,10}) [0-9a-f]+:[0-9a-f]+:([0-9]{1,20}) "
)
MOST_LINES = 65536


def is_locked(system: System, pid: int, descriptor: str) -> bool:
    """Whether the process holds a lock on one of its open files."""
    return HELD.search(system.text_or_empty(f"/proc/{pid}/fdinfo/{descriptor}")) is not None


def awaited(system: System, pid: int, descriptors: Mapping[str, str]) -> AwaitedLock | None:
    """The lock that a process waits for in the kernel. `descriptors`: names of its open files, by descriptor."""
    holder = 0
    for line in system.text_or_empty("/proc/locks").splitlines()[:MOST_LINES]:
        match = LINE.match(line)
        if match is None:
            continue
        number = int(match[3])
        if not match[2]:
            holder = number
        elif number == pid:
            owner = look(holder, system) if holder > 0 else None
            name = owner.printable if owner is not None else ""
            return AwaitedLock(file=_named(system, pid, match[4], descriptors), holder=max(0, holder), process=name)
    return None


def _named(system: System, pid: int, inode: str, descriptors: Mapping[str, str]) -> str:
    """The name of the open file of that number; empty where the kernel does not tell numbers (before 5.14)."""
    for descriptor, name in descriptors.items():
        match = INODE.search(system.text_or_empty(f"/proc/{pid}/fdinfo/{descriptor}"))
        if match is not None and match[1] == inode:
            return name
    return ""
