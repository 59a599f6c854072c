"""/dev/shm: its room, and NCCL's segments that crashed jobs left behind."""

import os
from typing import Any, NamedTuple

from gpudoctor.read.process import ProcStat, hidden_processes, open_files, processes
from gpudoctor.read.reader import reader
from gpudoctor.read.storage import space
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import Reading, Space, missing, read

FOLDER = "/dev/shm"


class Segment(NamedTuple):
    name: str
    size: int
    owner: int
    key: str
    """Device and inode as /proc/PID/maps writes them: names differ between mount namespaces."""


class InUse(NamedTuple):
    """What living processes hold; of those that could not be looked into, one for each user."""

    keys: frozenset[str]
    names: frozenset[str]
    blind: dict[int, ProcStat]


def segments(system: System) -> list[Segment]:
    """NCCL's files in /dev/shm (NCCL names them nccl-XXXXXX, src/misc/shmutils.cc). Raises `OSError`."""
    segments_read = []
    for name in system.names(FOLDER):
        if name.startswith("nccl-"):
            try:
                status = system.status(f"{FOLDER}/{name}")
            except FileNotFoundError:
                continue  # its job ended just now
            device = f"{os.major(status.device):02x}:{os.minor(status.device):02x}"
            segments_read.append(Segment(name, status.size, status.user_id, f"{device} {status.inode}"))
    return segments_read


def mapped(maps: str) -> set[str]:
    """Device and inode ("00:17 12345") of every file in a /proc/PID/maps."""
    ids = set()
    for line in maps.splitlines():
        fields = line.split(None, 5)
        if len(fields) >= 5 and fields[4] != "0":
            ids.add(f"{fields[3]} {fields[4]}")
    return ids


def in_use(system: System) -> InUse:
    """Look into every process that may hold a segment. Raises `OSError`."""
    keys: set[str] = set()
    names: set[str] = set()
    blind: dict[int, ProcStat] = {}
    for process in processes(system):
        if process.is_kernel_thread or process.state == "Z":
            continue
        folder = f"/proc/{process.pid}"
        try:
            owner = system.status(folder).user_id
            names.update(target.rpartition("/")[2] for target in open_files(system, process.pid))
            if process.state == "D":  # its maps can hang
                blind.setdefault(owner, process)
                continue
            keys |= mapped(system.text(f"{folder}/maps"))
        except PermissionError:
            blind.setdefault(owner, process)
        except OSError:
            continue  # it ended
    return InUse(frozenset(keys), frozenset(names), blind)


@reader("nccl segments", "host.nccl_segments")
def read_segments(system: System) -> Reading[Any]:
    """Segments that no living process maps or holds open."""
    source = "/dev/shm/nccl-*, /proc/*/maps"
    reading = attempt(source, lambda: segments(system), must_exist=True)
    if not reading.is_read or not reading.value:
        return read(source, ()) if reading.is_read else reading
    used = attempt(source, lambda: in_use(system), must_exist=True)
    hidden = attempt(source, lambda: hidden_processes(system), must_exist=True)
    if not used.is_read:
        return used
    free = [item for item in reading.value if item.key not in used.value.keys and item.name not in used.value.names]
    if free and (hidden.reason or hidden.value):
        return missing(source, hidden.reason or hidden.value, "denied")
    # NCCL makes its segments with mode 0600, so it takes a process of the same user to hold one.
    for item in free:
        if process := used.value.blind.get(item.owner):
            reason = f"process {process.pid} ({process.name}) may hold {item.name} and cannot be looked into"
            hint = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "; run gpudoctor as root"
            return missing(source, reason + hint, "denied")
    return read(source, tuple((item.name, item.size) for item in free))


@reader("shared memory", "host.shared_memory")
def read_shared_memory(system: System) -> Reading[Space]:
    """Room in /dev/shm."""

    def look() -> Space:
        system.names(FOLDER)  # a missing one must not be taken for its parent
        return space(system, FOLDER)

    return attempt(f"statvfs {FOLDER}", look, must_exist=True)
