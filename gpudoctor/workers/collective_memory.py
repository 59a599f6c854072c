"""How much memory a rank may use for its buffers, on a GPU or on the host."""

import os
from typing import Any, Dict, List, Optional

MIB = 1 << 20
# What the libraries take besides the buffers: nccl-tests keeps as much back on a GPU (src/common.cu, 1 GiB).
RESERVE_BYTES = {"cuda": 1024 * MIB, "cpu": 256 * MIB}
# gloo copies what it sends and receives for some collectives: a buffer costs up to this many times its size.
COPIES = {"cuda": 1.0, "cpu": 2.0}
UNLIMITED = 1 << 62  # cgroup v1 says "no limit" with a number near 2**63


def free_bytes(torch: Any, device: Any, sharing: int) -> int:
    """Memory that one of the `sharing` ranks on this GPU (or on this host) can take."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else host_free_bytes()
    return int(free) // max(1, sharing)


def host_free_bytes() -> int:
    """What the kernel says is available, or what the tightest cgroup still allows; 0 when neither can be read."""
    known = [available_bytes(), *(left for left in cgroup_left())]
    return min([bytes_ for bytes_ in known if bytes_ is not None], default=0)


def available_bytes() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def cgroup_left() -> List[int]:
    """Bytes left in this process's memory cgroup and in each of its ancestors that has a limit."""
    left: List[int] = []
    for folder, names in memory_folders():
        limit, used, inactive = (os.path.join(folder, name) for name in names)
        try:
            allowed = int(word(limit))
            if allowed < UNLIMITED:
                left.append(max(0, allowed - max(0, int(word(used)) - dropped_at_need(inactive))))
        except (OSError, ValueError):
            continue  # "max", or the top of the hierarchy, which has no such file
    return left


def memory_folders() -> List[Any]:
    """Folders to look in, with the names of their files, for cgroup v2 and v1 at their usual places."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    folders: List[Any] = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            top, names = "/sys/fs/cgroup", ("memory.max", "memory.current", "memory.stat")
        elif "memory" in controllers.split(","):
            top, names = "/sys/fs/cgroup/memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat")
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        folders += [(os.path.join(top, *parts[:length]), names) for length in range(len(parts) + 1)]
    return folders


def word(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def dropped_at_need(path: str) -> int:
    """Page cache of the cgroup that the kernel drops before it kills, bytes."""
    values: Dict[str, int] = {}
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, _, value = line.partition(" ")
                values[name] = int(value)
    except (OSError, ValueError):
        pass
    return values.get("total_inactive_file", values.get("inactive_file", 0))
