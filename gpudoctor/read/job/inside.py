"""Files by the names that another process has for them, opened so that it cannot lead us astray.

The names come from that process (its stacks, its environment, what it has announced), and often we are root: so a name
is followed as the process itself would follow it, below its root, where a symbolic link of a container could else lead
to a file of the host; and what the process's own user may not read is not read for it either.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpudoctor.read.process import fields_of
from gpudoctor.read.system import System

PROC = Path("/proc")
MOST_LINKS = 40
"""As the kernel follows (MAXSYMLINKS)."""
MOST_PARTS = 512
LONGEST_PATH = 4096
READ, WRITE, SEARCH = 4, 2, 1
_O_PATH = getattr(os, "O_PATH", 0) | getattr(os, "O_CLOEXEC", 0)
_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class Rights(NamedTuple):
    """As whom a process opens files."""

    user: int
    groups: frozenset[int]

    def may(self, status: os.stat_result, wanted: int) -> bool:
        """By the mode alone; an access list may allow more, which then is not read."""
        if self.user == 0:
            return True
        if status.st_uid == self.user:
            return bool(status.st_mode >> 6 & wanted)
        if status.st_gid in self.groups:
            return bool(status.st_mode >> 3 & wanted)
        return bool(status.st_mode & wanted)


def rights(pid: int, proc: Path = PROC) -> Rights:
    """The rights of a process; those of its real user, where a program has borrowed another's. Raises `OSError`."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = fields_of(pid, System(proc.parent))
        users, own, more = ([int(word) for word in fields.get(name, "").split()] for name in ("Uid", "Gid", "Groups"))
        return Rights(users[0], frozenset((own[0], *more)))
    folder = (proc / str(pid)).stat()
    return Rights(folder.st_uid, frozenset({folder.st_gid}))


@contextlib.contextmanager
def found(pid: int, path: str, *, link: bool = True, proc: Path = PROC) -> Iterator[int]:
    """A descriptor (O_PATH: nothing is opened yet) of what a process calls `path`. Raises `OSError`.

    `link`: whether the last part may be a symbolic link. A relative path begins in the process's working folder.
    """
    with contextlib.ExitStack() as stack:
        yield _Walk(pid, proc, stack).to(path, link)


@contextlib.contextmanager
def regular(pid: int, path: str, *, link: bool = True, proc: Path = PROC) -> Iterator[int]:
    """A descriptor to read a regular file from, which the process may read itself. Raises `OSError`."""
    with found(pid, path, link=link, proc=proc) as place:
        status = os.fstat(place)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is no regular file (a symlink, FIFO or device)")
        if not _is_allowed(rights(pid, proc), status, READ):
            raise OSError("the process's own user may not read it")
        descriptor = reopened(place, os.O_RDONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def names(pid: int, path: str, *, most: int = 4096, proc: Path = PROC) -> list[str]:
    """What stands in a folder, as far as the process may list it. Raises `OSError`."""
    with found(pid, path, proc=proc) as place:
        status = os.fstat(place)
        if not stat.S_ISDIR(status.st_mode) or not _is_allowed(rights(pid, proc), status, READ):
            raise OSError("it is no folder that the process's own user may list")
        descriptor = reopened(place, os.O_RDONLY)
        try:
            with os.scandir(descriptor) as entries:
                return [entry.name for _, entry in zip(range(most), entries, strict=False)]
        finally:
            os.close(descriptor)


def reopened(place: int, flags: int) -> int:
    """A descriptor for use of what `found` has found: the very same file, whatever its name leads to by now."""
    return os.open(f"/proc/self/fd/{place}", flags | _PLAIN)


def _is_allowed(who: Rights, status: os.stat_result, wanted: int) -> bool:
    """What the kernel does not check for us: it asks what we may, and root may all."""
    return os.geteuid() != 0 or who.may(status, wanted)


class _Walk:
    """From a process's root or working folder, part by part, no part of which the kernel follows by itself."""

    def __init__(self, pid: int, proc: Path, stack: contextlib.ExitStack) -> None:
        self.stack = stack
        self.rights = rights(pid, proc)
        self.base = proc / str(pid)
        self.root = self._kept(os.open(self.base / "root", _O_PATH | os.O_DIRECTORY))

    def to(self, path: str, link: bool) -> int:
        if not path or len(path) > LONGEST_PATH or "\0" in path:
            raise OSError("no such file")
        way = [self.root]
        if not path.startswith("/"):
            way = [self._kept(os.open(self.base / "cwd", _O_PATH | os.O_DIRECTORY))]
        left = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        links = parts = 0
        while left:
            part = left.pop()
            parts += 1
            if parts > MOST_PARTS:
                raise OSError("its name has too many parts")
            if part == "..":
                self._up(way)
                continue
            status = os.fstat(way[-1])
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError("a part of its name is no folder")
            if not _is_allowed(self.rights, status, SEARCH):
                raise OSError("the process's own user may not enter its folder")
            inner = self._kept(os.open(part, _O_PATH | os.O_NOFOLLOW, dir_fd=way[-1]))
            if not stat.S_ISLNK(os.fstat(inner).st_mode):
                way.append(inner)
                continue
            links += 1
            if links > MOST_LINKS or (not left and not link):
                raise OSError("it is a symbolic link; links are not followed")
            target = os.readlink("", dir_fd=inner)
            if target.startswith("/"):
                way = [self.root]
            left += [part for part in reversed(target.split("/")) if part not in ("", ".")]
        return way[-1]

    def _up(self, way: list[int]) -> None:
        if len(way) > 1:
            way.pop()
        elif not os.path.samestat(os.fstat(way[0]), os.fstat(self.root)):
            way[0] = self._kept(os.open("..", _O_PATH | os.O_DIRECTORY, dir_fd=way[0]))

    def _kept(self, descriptor: int) -> int:
        self.stack.callback(os.close, descriptor)
        return descriptor
