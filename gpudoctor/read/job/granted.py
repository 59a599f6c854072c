"""What the cgroups of a process grant it (v1 and v2): processor time, and for how long they held it back; memory."""

import contextlib
import re
from typing import NamedTuple

from gpudoctor.read import mounts
from gpudoctor.read.cgroup import (
    MEMORY_FILES,
    CgroupFolders,
    amount,
    cpu_limit,
    memberships,
    place,
    statistic,
    tightest,
)
from gpudoctor.read.system import System
from gpudoctor.snapshot.holds import CgroupMemory


class Throttled(NamedTuple):
    """Of the cgroup with the tightest quota, since it was made."""

    cpus: float
    folder: str
    seconds: float
    """All threads together, as the kernel counts."""
    throttled_periods: int
    periods: int


def throttled(system: System, pid: int) -> Throttled | None:
    """None where there is no quota, or none that can be seen from here."""
    try:
        folders = _folders(system, pid, "cpu")
        limit = cpu_limit(system, folders)
        if folders is None or limit is None:
            return None
        cpus, folder = limit
        stat = system.text(f"{folder}/cpu.stat")
    except (OSError, ValueError):
        return None
    seconds = (
        statistic(stat, "throttled_usec") / 1e6 if folders.version == 2 else statistic(stat, "throttled_time") / 1e9
    )
    return Throttled(cpus, folder, seconds, statistic(stat, "nr_throttled"), statistic(stat, "nr_periods"))


def memory_limit(system: System, pid: int) -> int | None:
    """Bytes that the process may have at most: of its cgroups, else of the machine."""
    with contextlib.suppress(OSError, ValueError):
        if (least := _least_memory(system, pid)) is not None:
            return int(least[0])
    total = re.search(r"^MemTotal:\s*([0-9]{1,15}) kB$", system.text_or_empty("/proc/meminfo"), re.MULTILINE)
    return int(total[1]) * 1024 if total else None


def memory(system: System, pid: int) -> CgroupMemory | None:
    """None where no cgroup of it has a limit, or none that can be seen from here."""
    with contextlib.suppress(OSError, ValueError):
        if (least := _least_memory(system, pid, "memory.high")) is not None:
            limit, path = least
            folder, _, name = path.rpartition("/")
            of_use = MEMORY_FILES[1 if name == MEMORY_FILES[1][0] else 2][1]
            used = int(system.text(f"{folder}/{of_use}"))
            return CgroupMemory(folder=folder, limit_bytes=int(limit), used_bytes=used)
    return None


NEAR = 0.95
"""Of memory.high: who is held at it gives pages back, and is a little below it when looked at."""


def over_high(system: System, pid: int) -> int | None:
    """How often the cgroups of a process that have a memory.high were over it, where one of them is near it now; None:
    none is, or none has one (v1)."""
    total = None
    with contextlib.suppress(OSError, ValueError):
        folders = _folders(system, pid, "memory")
        for folder in folders.folders if folders is not None and folders.version == 2 else ():
            high = system.text_or_empty(f"{folder}/memory.high").strip()
            if not high.isdigit() or int(system.text(f"{folder}/memory.current")) < NEAR * int(high):
                continue
            total = (total or 0) + statistic(system.text(f"{folder}/memory.events"), "high")
    return total


def _least_memory(system: System, pid: int, *more: str) -> tuple[float, str] | None:
    """The smallest limit of its cgroups, and its file; `more`: files of v2 that hold one too. Raises `OSError` and
    `ValueError`."""
    folders = _folders(system, pid, "memory")
    if folders is None:
        return None
    names = (MEMORY_FILES[folders.version][0], *(more if folders.version == 2 else ()))
    paths = [f"{folder}/{name}" for folder in folders.folders for name in names]
    return tightest(paths, lambda path: amount(system.text(path)))


def frozen(system: System, pid: int) -> str:
    """The file that thaws the cgroup whose freezer stops the process, of the uppermost one that is frozen; else ""."""
    for controller, name, stopped, thaws in (
        ("freezer", "freezer.state", "FROZEN", "freezer.state"),
        ("", "cgroup.events", "frozen 1", "cgroup.freeze"),
    ):
        try:
            folders = _folders(system, pid, controller)
            above = folders.folders if folders is not None and folders.version == (1 if controller else 2) else ()
            held = [folder for folder in above if stopped in system.text_or_empty(f"{folder}/{name}")]
        except (OSError, ValueError):
            continue
        if held:
            return f"{held[-1]}/{thaws}"
    return ""


def _folders(system: System, pid: int, controller: str) -> CgroupFolders | None:
    """Raises `OSError` and `ValueError`."""
    member = memberships(system.text(f"/proc/{pid}/cgroup"))
    if any(".." in path for path in member.values()):
        return None  # outside of our cgroup namespace, whose top would be taken for its own
    return place(controller, member, mounts.parse(system.text("/proc/self/mountinfo")), system)
