"""Limits of the doctor's cgroup and of all its ancestors: cgroup v1, v2, and both at once."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from gpudoctor.read import mounts
from gpudoctor.read.mounts import Mount
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import Cgroup, Reading, missing

UNLIMITED = 1 << 62
"""v1 says "no limit" with the largest page-aligned number below 2**63 (9223372036854771712 with 4 KiB pages)."""


MEMORY_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""By cgroup version: the limit's file, the use's file, and the line of memory.stat for droppable page cache."""
LOCAL_EVENTS = "memory.events.local"
MOST_FOLDERS = 64


class CgroupFolders(NamedTuple):
    """The folders of one controller, from the own cgroup up to the top that is visible here."""

    version: Literal[1, 2]
    folders: tuple[str, ...]


def memberships(text: str) -> dict[str, str]:
    """/proc/self/cgroup as controller -> path; "" stands for the v2 hierarchy, whose line names no controller."""
    by_controller: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and path.startswith("/"):
            # Only hierarchy 0 is v2; a v1 line may have an empty list only in garbage.
            names = [""] if number == "0" and not controllers else controllers.split(",")
            by_controller.update((name, path) for name in names)
    return by_controller


def amount(text: str) -> int | None:
    """A limit: a number, or "max" or v1's largest number for none. Raises `ValueError`."""
    word = text.strip()
    if word == "max":
        return None
    number = int(word)
    return None if number >= UNLIMITED or number < 0 else number


def cpus(quota: str, period: str) -> float | None:
    """CPUs' worth of a CFS quota ("max" or -1: no limit). Raises `ValueError`."""
    limit = amount(quota)
    if limit is None:
        return None
    if int(period) <= 0:
        raise ValueError(f"period {period!r}")
    return limit / int(period)


def statistic(text: str, name: str) -> int:
    """One number of a memory.stat; 0 when it has no such line."""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name and words[1].isascii() and words[1].isdigit():
            return int(words[1])
    return 0


def place(controller: str, member: Mapping[str, str], mounted: Sequence[Mount], system: System) -> CgroupFolders | None:
    """Where this process's cgroup of a controller is; None when its hierarchy is not mounted here."""
    for mount in mounted:
        if mount.filesystem == "cgroup" and controller in mount.super_options and controller in member:
            return CgroupFolders(1, _upwards(mount, member[controller], system))
    for mount in mounted:
        if mount.filesystem == "cgroup2" and "" in member:
            return CgroupFolders(2, _upwards(mount, member[""], system))
    return None


def _upwards(mount: Mount, path: str, system: System) -> tuple[str, ...]:
    """The cgroup's folder and its ancestors up to the mount point.

    In a container without a cgroup namespace, mountinfo's root is the container's own cgroup ("/docker/ID") and
    paths are the host's; with one, the path is "/". Where the two cannot be joined, the mount point is the
    container's own cgroup.
    """
    relative = posixpath.relpath(path, mount.root) if path.startswith("/") and mount.root.startswith("/") else "."
    if relative.startswith(".."):
        relative = "."
    folder = posixpath.normpath(posixpath.join(mount.point, relative))
    if not system.exists(folder):
        folder = mount.point
    folders = [folder]
    while folder != mount.point and len(folders) < 64:
        folder = posixpath.dirname(folder)
        folders.append(folder)
    return tuple(folders)


def tightest(folders: Sequence[str], limit: Callable[[str], float | None]) -> tuple[float, str] | None:
    """The smallest limit and the folder it stands in; the top of a hierarchy has no such file."""
    candidates = []
    for folder in folders:
        try:
            value = limit(folder)
        except FileNotFoundError:
            continue
        if value is not None:
            candidates.append((value, folder))
    return min(candidates, default=None)


def limits(system: System) -> Cgroup:
    """The tightest limits. Raises `OSError` and `ValueError`."""
    member = memberships(system.text("/proc/self/cgroup"))
    mounted = mounts.parse(system.text("/proc/self/mountinfo"))
    memory = place("memory", member, mounted, system)
    cpu = place("cpu", member, mounted, system)
    pids = place("pids", member, mounted, system)
    if memory is None and cpu is None and pids is None:
        raise OSError("no cgroup file system is mounted here")
    memory_limit, memory_used = _memory(system, memory)
    pids_limit, pids_used = _pids(system, pids)
    return Cgroup(
        version=next(found.version for found in (memory, cpu, pids) if found),
        memory_limit_bytes=memory_limit,
        memory_used_bytes=memory_used,
        cpu_limit=_cpu(system, cpu),
        pids_limit=pids_limit,
        pids_used=pids_used,
    )


def _memory(system: System, folders: CgroupFolders | None) -> tuple[int | None, int | None]:
    """Limit and use in bytes.

    Use is without `inactive_file`, page cache that the kernel drops before it kills: the "working set" by which
    the kubelet judges (cadvisor container/libcontainer/handler.go, setMemoryStats).
    """
    if folders is None:
        return None, None
    maximum, current, inactive = MEMORY_FILES[folders.version]
    limit = tightest(folders.folders, lambda folder: amount(system.text(f"{folder}/{maximum}")))
    folder = limit[1] if limit else folders.folders[0]
    used: int | None = None
    if system.exists(f"{folder}/{current}"):
        cache = statistic(system.text(f"{folder}/memory.stat"), inactive)
        used = max(0, int(system.text(f"{folder}/{current}")) - cache)
    return int(limit[0]) if limit else None, used


def cpu_limit(system: System, folders: CgroupFolders | None) -> tuple[float, str] | None:
    """The tightest quota, in CPUs, and the folder that it stands in. Raises `OSError` and `ValueError`."""
    if folders is None:
        return None

    def limit(folder: str) -> float | None:
        if folders.version == 2:
            quota, period = system.text(f"{folder}/cpu.max").split()
            return cpus(quota, period)
        return cpus(system.text(f"{folder}/cpu.cfs_quota_us"), system.text(f"{folder}/cpu.cfs_period_us"))

    return tightest(folders.folders, limit)


def _cpu(system: System, folders: CgroupFolders | None) -> float | None:
    tight = cpu_limit(system, folders)
    return tight[0] if tight else None


def _pids(system: System, folders: CgroupFolders | None) -> tuple[int | None, int | None]:
    if folders is None:
        return None, None
    limit = tightest(folders.folders, lambda folder: amount(system.text(f"{folder}/pids.max")))
    folder = limit[1] if limit else folders.folders[0]
    used = int(system.text(f"{folder}/pids.current")) if system.exists(f"{folder}/pids.current") else None
    return int(limit[0]) if limit else None, used


@reader("cgroup", "host.cgroup")
def read_cgroup(system: System) -> Reading[Cgroup]:
    source = "/proc/self/cgroup, /sys/fs/cgroup"
    reading = attempt(source, lambda: limits(system))
    if not reading.is_read and not system.exists("/proc/self/mountinfo"):
        reading = missing(source, "/proc is not mounted here")
    return reading


def oom_kills(system: System, pid: int) -> int | None:
    """Processes that the OOM killer has ended in its cgroup: memory.events, or v1's memory.oom_control."""
    try:
        return oom_kills_in(system, oom_place(system, system.text(f"/proc/{pid}/cgroup")))
    except OSError:
        return None


def oom_place(system: System, membership: str) -> str:
    """The file that counts them, of the cgroup that a /proc/PID/cgroup tells; empty where there is none to see.

    Of v2 the one that counts its own processes alone, of the cgroup that they are charged to: where a cgroup has no
    memory controller that is one above it. Before Linux 5.2 `memory.events`, which counts those of cgroups below too.
    """
    try:
        member = memberships(membership)
        if any(".." in path for path in member.values()):
            return ""  # it is outside of our cgroup namespace, whose top would be taken for its own
        found = place("memory", member, mounts.parse(system.text("/proc/self/mountinfo")), system)
        if found is None:
            return ""
        if found.version == 1:
            return f"{found.folders[0]}/memory.oom_control"
        local = (f"{folder}/{LOCAL_EVENTS}" for folder in found.folders)
        return next(filter(system.exists, local), f"{found.folders[0]}/memory.events")
    except (OSError, ValueError):
        return ""


def pids_counted_in(system: System, path: str) -> Iterator[int]:
    """The processes whose end such a file would count; 0 stands for those of a PID namespace that is not seen here."""
    folders = [posixpath.dirname(path)]
    for folder in folders:
        yield from (int(word) for word in system.text_or_empty(f"{folder}/cgroup.procs").split() if word.isdigit())
        if path.endswith("oom_control") or len(folders) > MOST_FOLDERS:
            continue  # v1 counts each cgroup alone
        for name in system.names_or_none(folder):
            below = f"{folder}/{name}"
            has_its_own = path.endswith(LOCAL_EVENTS) and system.exists(f"{below}/{LOCAL_EVENTS}")
            if system.exists(f"{below}/cgroup.procs") and not has_its_own:
                folders.append(below)


def oom_kills_in(system: System, path: str) -> int | None:
    """What such a file counts; None: it is not there, or tells nothing."""
    try:
        return statistic(system.text(path), "oom_kill") if path and system.exists(path) else None
    except (OSError, ValueError):
        return None
