"""What a process that `gpudoctor.arm()` has prepared announces: found by its name, and read where it is in memory.

A file of its own, for `gpudoctor run` reads it while the job runs and loads little besides.
"""

import contextlib
import functools
import os
import stat
import struct
from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.read.job import inside

PROC = "/proc"
ANNOUNCEMENT = "/memfd:gpudoctor-armed"
COUNTS_AT, COUNTS = 4096, struct.Struct("<QQqQ")
"""Of the announcement: collectives begun, groups, rank; the step that the program says it is in, plus one."""
MOST_DESCRIPTORS = 65536


def announcement(pid: int) -> int | None:
    """The descriptor of a process's announcement, for `progress`; None where it has none."""
    return descriptor_of(pid, ANNOUNCEMENT)


class RankProgress(NamedTuple):
    """How far an armed process has come, as it says."""

    begun: int = 0
    """Collectives, over all its groups."""
    rank: int | None = None
    """None: it is in no group yet."""
    step: int | None = None
    """As its program counts; None: that tells none."""


def progress(pid: int, descriptor: int) -> RankProgress | None:
    """None: it does not say."""
    try:
        counted = read_from(pid, descriptor, COUNTS.size, COUNTS_AT).ljust(COUNTS.size, b"\0")
        begun, groups, rank, step = COUNTS.unpack(counted)
    except (OSError, struct.error):
        return None
    if not groups and not step:
        return None
    return RankProgress(int(begun), int(rank) if groups else None, int(step) - 1 if step else None)


def file_of(pid: int, descriptor: int) -> int:
    """Which file in memory an announcement is: a process that a rank has forked holds its parent's. 0: it is gone."""
    try:
        return os.stat(_path(pid, descriptor)).st_ino  # noqa: PTH116
    except OSError:
        return 0


def _path(pid: int, descriptor: int) -> str:
    return f"{PROC}/{pid}/fd/{descriptor}"


def _link(pid: int, descriptor: int) -> str:
    try:
        return os.readlink(_path(pid, descriptor))  # noqa: PTH115
    except (OSError, ValueError):
        return ""


def descriptor_of(pid: int, name: str) -> int | None:
    """The first descriptor that is a file of this name in memory. Only links are read: no file of it is opened."""
    try:
        with os.scandir(f"{PROC}/{pid}/fd") as entries:
            for number, entry in enumerate(entries):
                if number >= MOST_DESCRIPTORS:
                    break
                if entry.name.isdecimal() and is_ours(pid, int(entry.name), name):
                    return int(entry.name)
    except OSError:
        pass
    return None


def is_ours(pid: int, descriptor: int, name: str) -> bool:
    if not _link(pid, descriptor).startswith(name):
        return False
    try:
        with in_memory(pid, descriptor, os.O_RDONLY):
            return True
    except OSError:
        return False


def size_of(pid: int, descriptor: int) -> int:
    return os.stat(_path(pid, descriptor)).st_size  # noqa: PTH116


def read_from(pid: int, descriptor: int, limit: int, start: int) -> bytes:
    with in_memory(pid, descriptor, os.O_RDONLY) as opened:
        return os.pread(opened, limit, start)


@contextlib.contextmanager
def in_memory(pid: int, descriptor: int, flags: int) -> Iterator[int]:
    """A descriptor of ours for a file in memory of that process. Raises `OSError` for anything else.

    Its name proves nothing: whoever has a root of their own can give that name to any file that they may read, which
    root would then empty. Files in memory lie on a device that nobody can mount.
    """
    if not _link(pid, descriptor).startswith("/memfd:gpudoctor-"):
        raise OSError("the file is gone")
    place = os.open(_path(pid, descriptor), os.O_PATH | os.O_CLOEXEC)
    try:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode) or status.st_dev != _device_of_memory():
            raise OSError("it is no file in memory")
        if status.st_uid != inside.rights(pid).user:
            raise OSError("it belongs to another user")
        opened = inside.reopened(place, flags)
    finally:
        os.close(place)
    try:
        yield opened
    finally:
        os.close(opened)


@functools.lru_cache(maxsize=1)
def _device_of_memory() -> int:
    own = os.memfd_create("gpudoctor")
    try:
        return os.fstat(own).st_dev
    finally:
        os.close(own)
