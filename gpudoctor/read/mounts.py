"""Parses /proc/self/mountinfo: what is mounted where."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class Mount(NamedTuple):
    """One line of mountinfo (proc(5))."""

    root: str
    """The folder of the file system that is mounted: "/" for all of it."""
    point: str
    filesystem: str
    source: str
    super_options: tuple[str, ...]


@lru_cache(maxsize=4)  # asked for each process of a job, and a node of Kubernetes has thousands
def parse(text: str) -> tuple[Mount, ...]:
    """Every mount in the order of mountinfo; lines that are none are passed over."""
    mounts = []
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if dash and len(fields) >= 6 and len(rest) >= 3:
            options = tuple(rest[2].split(","))
            mounts.append(Mount(_plain(fields[3]), _plain(fields[4]), rest[0], _plain(rest[1]), options))
    return tuple(mounts)


def holding(mounts: Sequence[Mount], path: str) -> Mount | None:
    """The mount that a path (absolute, without symbolic links) lies on; of several at one place the last."""
    best: Mount | None = None
    for mount in mounts:
        inside = mount.point == "/" or path == mount.point or path.startswith(mount.point + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _plain(word: str) -> str:
    """Undo the kernel's octal escapes of space, tab, newline and backslash."""
    return re.sub(r"\\([0-3][0-7]{2})", lambda match: chr(int(match[1], 8)), word)
