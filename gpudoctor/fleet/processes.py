"""Processes of this machine by number: what state they are in, who descends from whom, ending them without mistake.

From /proc (Linux); elsewhere nothing is found. A number is used again once its process is gone, so a `Process`
carries its start time, and a signal is sent to that one only.
"""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
MOST_GENERATIONS = 64
"""Between an agent and its ranks there are two or three; the bound is for a table that changes under us."""


class Process(NamedTuple):
    """A process as /proc/PID/stat shows it."""

    pid: int
    parent: int
    state: str
    """ "R", "S", "D" (waits in the kernel), "T" (stopped), "t" (traced), "Z" (ended, not yet waited for), ..."""
    started: int
    """Clock ticks after boot; with the number, it names a process for good."""
    exit_code: int = 0
    """Of a process in state Z, as waitpid(2) gives it; 0 where the kernel does not tell."""


def look(pid: int) -> Process | None:
    """The process that has this number now; None when there is none."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    return from_stat(text)


def from_stat(text: str) -> Process | None:
    """Read the one line of /proc/PID/stat (proc(5)); None when it is cut short or no such line."""
    head, found, tail = text.rpartition(")")  # the name before it may hold anything, ")" too
    fields = tail.split()
    try:
        pid = int(head.partition("(")[0])
        exit_code = int(fields[49]) if len(fields) > 49 else 0
        return Process(pid, int(fields[1]), fields[0], int(fields[19]), exit_code) if found else None
    except (ValueError, IndexError):
        return None


def now(process: Process) -> Process | None:
    """The same process as it is now; None when it is gone."""
    found = look(process.pid)
    return found if found is not None and found.started == process.started else None


def lives(process: Process) -> bool:
    """It can still run: neither gone nor ended."""
    found = now(process)
    return found is not None and found.state not in ("Z", "X")


def tell(process: Process, number: int) -> bool:
    """Send a signal, if it is still this process that has the number. Whether it was sent."""
    if not lives(process):
        return False
    try:
        os.kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end(processes: Iterable[Process], *, patience: float) -> tuple[Process, ...]:
    """Kill them, and wait until they are gone; those that still are there after `patience` seconds."""
    left = [process for process in processes if tell(process, signal.SIGKILL)]
    deadline = time.monotonic() + patience
    while left and time.monotonic() < deadline:
        left = [process for process in left if lives(process)]
        if left:
            time.sleep(0.005)
    return tuple(left)


def descendants(pid: int) -> tuple[Process, ...]:
    """Its children, their children and so on, as they are now."""
    children: dict[int, list[Process]] = {}
    try:
        names = [entry.name for entry in PROC.iterdir() if entry.name.isdecimal()]
    except OSError:
        return ()
    for name in names:
        if found := look(int(name)):
            children.setdefault(found.parent, []).append(found)
    family: list[Process] = []
    generation = [pid]
    while generation:
        young = [child for parent in generation for child in children.pop(parent, ())]
        family += young
        generation = [child.pid for child in young]
    return tuple(family)


def descends(process: Process, ancestor: int) -> bool:
    """Whether it is a child of that process, or a child's child and so on."""
    above: Process | None = process
    for _ in range(MOST_GENERATIONS):
        if above is None or above.parent in (0, 1):
            return False
        if above.parent == ancestor:
            return True
        above = look(above.parent)
    return False


def catches(pid: int, number: int) -> bool:
    """Whether it has a handler for this signal; without one, SIGUSR1 would end it."""
    try:
        status = (PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    for line in status.splitlines():
        name, _, mask = line.partition(":")
        if name == "SigCgt":
            try:
                return bool(int(mask, 16) >> (number - 1) & 1)
            except ValueError:
                return False
    return False


def waits_in(pid: int) -> str:
    """The kernel function that it sleeps in; empty when it does not, or the kernel does not tell."""
    try:
        name = (PROC / str(pid) / "wchan").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    return "" if name == "0" else name


def oom_kills() -> int | None:
    """How many processes the OOM killer has ended on this machine since boot, of any cgroup; None: not told.

    The counter `oom_kill` of /proc/vmstat (Linux 4.13 on); every user may read it.
    """
    try:
        text = (PROC / "vmstat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        if name == "oom_kill" and number.isdecimal():
            return int(number)
    return None
