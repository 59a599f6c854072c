"""What a process has loaded and opened: libraries and their versions, files, limits, its memory and cgroup.

Libraries are looked at through /proc/PID/root, so that those of a container are found; nothing is loaded or run.
"""

import errno
import os
import re
import stat
from typing import NamedTuple

from gpudoctor.lazy import lazy_re
from gpudoctor.read import apart
from gpudoctor.read.cgroup import memberships
from gpudoctor.read.job import file_locks, inside
from gpudoctor.read.system import System
from gpudoctor.snapshot.holds import AwaitedLock

MAXIMUM_MAPS = 16 * 1024 * 1024
MOST_LIBRARIES = 32
MOST_FILES = 64
MOST_DESCRIPTORS = 4096
LONGEST_PATH = 1024
LIBRARY = lazy_re(
    r"lib(?:nccl[\w-]*|rccl[\w-]*|torch(?:_\w+)?|c10(?:_\w+)?|cuda|cudart[\w-]*|nvidia-ml|ibverbs|fabric|mlx5|efa|ucp|mpi|"
    r"gloo|msccl[\w-]*)(?:-[0-9a-f]{6,})?\.so(?:\.[\d.]+)?"
)
VERSION = lazy_re(r"^__version__\s*(?::[^=\n]{0,40})?=\s*['\"]([\w.+-]{1,64})['\"]", re.MULTILINE)
NCCL_PACKAGE = lazy_re(r"nvidia_nccl_cu\d+-([\w.]{1,32})\.dist-info")
NCCL_FILE = lazy_re(r"libnccl\.so\.(\d+\.\d+(?:\.\d+)*)")
NCCL_WORDS = lazy_re(rb"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})")
MAXIMUM_LIBRARY = 1024 * 1024 * 1024
"""libnccl.so.2 has 200 to 400 MB; the text that is looked for stands in its read-only data."""
CHUNK = 4 * 1024 * 1024
LIMITS = {
    "Max locked memory": "memlock",
    "Max open files": "nofile",
    "Max processes": "nproc",
    "Max stack size": "stack",
}


def libraries(system: System, pid: int) -> dict[str, str]:
    """Name -> path of the libraries of training that it has mapped. Raises `OSError`. Not of a process in state D."""
    by_name: dict[str, str] = {}
    for line in system.raw(f"/proc/{pid}/maps", MAXIMUM_MAPS).split(b"\n"):
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or b".so" not in fields[5]:
            continue
        path = fields[5].decode("utf-8", "backslashreplace").removesuffix(" (deleted)")
        name = path.rpartition("/")[2]
        if len(by_name) < MOST_LIBRARIES and LIBRARY.fullmatch(name):
            by_name.setdefault(name, path[:LONGEST_PATH])
    return by_name


class Versions:
    """Versions of libraries; what several ranks share is read once."""

    def __init__(self, system: System) -> None:
        self.proc = system.at("/proc")
        self._nccl: dict[tuple[int, int, int], str] = {}

    def of(self, pid: int, loaded: dict[str, str]) -> dict[str, str]:
        """ "torch" and "nccl" -> version, of those that are told."""
        versions: dict[str, str] = {}
        for name in ("libtorch_cpu.so", "libtorch.so", "libtorch_python.so", "libc10.so"):
            if (path := loaded.get(name)) and (version := self._torch(pid, _above(path, 2) + "/version.py")):
                versions["torch"] = version
                break
        path = loaded.get("libnccl.so.2") or next(
            (path for name, path in loaded.items() if re.fullmatch(r"libnccl\.so[\d.]*", name)), ""
        )
        if path and (version := self._nccl_version(pid, path)):
            versions["nccl"] = version
        return versions

    def _torch(self, pid: int, path: str) -> str:
        try:
            with inside.regular(pid, path, proc=self.proc) as file:
                match = VERSION.search(apart.taken(file, 65536).decode("utf-8", "replace"))
        except OSError:
            return ""
        return match[1] if match else ""

    def _nccl_version(self, pid: int, path: str) -> str:
        # .../site-packages/nvidia/nccl/lib/libnccl.so.2 beside .../site-packages/nvidia_nccl_cu12-2.27.3.dist-info
        if path.endswith("/nvidia/nccl/lib/libnccl.so.2"):
            try:
                with inside.found(pid, _above(path, 4), proc=self.proc) as folder:
                    names = os.listdir(f"/proc/self/fd/{folder}")  # noqa: PTH208 - of a descriptor, not a path
                    for name in sorted(names):
                        if match := NCCL_PACKAGE.fullmatch(name):
                            return match[1]
            except OSError:
                pass
        if version := _named(path):
            return version
        try:
            with inside.regular(pid, path, proc=self.proc) as file:
                if version := _named(os.readlink(f"/proc/self/fd/{file}")):  # noqa: PTH115 - its name behind all links
                    return version
                known = os.fstat(file)
                key = (known.st_dev, known.st_ino, known.st_size)
                if key not in self._nccl:
                    self._nccl[key] = _from_bytes(file)
        except OSError:
            return ""
        return self._nccl[key]


def _named(path: str) -> str:
    """The version in the name of NCCL's library; empty where it is not all there."""
    named = NCCL_FILE.fullmatch(path.rpartition("/")[2])
    return named[1] if named and named[1].count(".") >= 2 else ""


def _from_bytes(file: int) -> str:
    before, left = b"", MAXIMUM_LIBRARY
    while left > 0 and (chunk := os.read(file, CHUNK)):
        if match := NCCL_WORDS.search(before + chunk):
            return match[1].decode()
        before = chunk[-32:]
        left -= len(chunk)
    return ""


def _above(path: str, levels: int) -> str:
    for _ in range(levels):
        path = path.rpartition("/")[0]
    return path


class Open(NamedTuple):
    files: tuple[str, ...]
    output: tuple[str, ...]
    locked: tuple[str, ...] = ()
    """Files on which it holds a lock."""
    awaited: AwaitedLock | None = None


def open_files(system: System, pid: int) -> Open:
    """Regular files, FIFOs and devices, each once; what standard output and error go to. Raises `OSError`."""
    folder = f"/proc/{pid}/fd"
    targets: dict[str, None] = {}
    output: dict[str, None] = {}
    locked: dict[str, None] = {}
    descriptors: dict[str, str] = {}
    names = system.names(folder)
    for name in sorted(names, key=lambda name: (len(name), name))[:MOST_DESCRIPTORS]:
        try:
            target = system.link(f"{folder}/{name}")
        except FileNotFoundError:
            continue  # closed meanwhile
        if not target.startswith("/") or target in ("/dev/null", "/dev/urandom", "/dev/random"):
            continue
        target = target[:LONGEST_PATH].encode("utf-8", "backslashreplace").decode()
        if name in ("1", "2") and not target.startswith("/dev/") and not target.startswith("/memfd:"):
            output[target] = None
        if not target.startswith("/memfd:") and len(targets) < MOST_FILES:
            targets[target] = None
            descriptors[name] = target
            if file_locks.is_locked(system, pid, name):
                locked[target] = None
    return Open(tuple(targets), tuple(output), tuple(locked), file_locks.awaited(system, pid, descriptors))


def limits(system: System, pid: int) -> dict[str, str]:
    """Soft limits by name, as /proc/PID/limits writes them. Raises `OSError`."""
    by_name: dict[str, str] = {}
    for line in system.text(f"/proc/{pid}/limits").splitlines():
        for title, name in LIMITS.items():
            words = line.removeprefix(title).split() if line.startswith(title) else []
            if words:
                by_name[name] = words[0][:32]
    return by_name


def resident_bytes(system: System, pid: int) -> int | None:
    match = re.search(r"^VmRSS:\s*([0-9]{1,15}) kB$", system.text_or_empty(f"/proc/{pid}/status"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def peak_bytes(system: System, pid: int) -> int | None:
    """Most that was resident of it so far."""
    match = re.search(r"^VmHWM:\s*([0-9]{1,15}) kB$", system.text_or_empty(f"/proc/{pid}/status"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def cgroup(system: System, pid: int) -> str:
    """Its place in the v2 hierarchy, else in v1's of memory; empty where it is the top."""
    try:
        members = memberships(system.text(f"/proc/{pid}/cgroup"))
    except OSError:
        return ""
    path = members.get("memory") or members.get("") or ""
    return "" if path == "/" else path.encode("utf-8", "backslashreplace").decode()[:LONGEST_PATH]


class InsideReader:
    """Reads files as a process sees them: relative to its working folder, under its root, with its user's rights.

    `until`: of names that no process gave, only files that have not changed after it."""

    def __init__(self, pid: int, until: float = 0.0) -> None:
        self.pid = pid
        self.until = until

    def __call__(self, path: str) -> bytes:
        """At most 2 MiB of a regular file. Raises `OSError`: a FIFO or device is not opened."""
        with inside.regular(self.pid, path) as file:
            if self.until:
                self._check(os.fstat(file))
            return apart.taken(file, 2 * 1024 * 1024 + 1)

    def _check(self, file: os.stat_result) -> None:
        """Of a name that stands in a dump or a log, which anybody may have written: as it was then, and for root no
        more than what all may read."""
        if file.st_mtime > self.until:
            raise OSError(errno.ESTALE, "it has changed since")
        if os.geteuid() == 0 and not file.st_mode & stat.S_IROTH:
            raise PermissionError(errno.EACCES, "not all may read it")
