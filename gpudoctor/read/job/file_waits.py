"""How often a process waits for files, by a few looks a second at what the kernel says of its main thread.

Each costs microseconds and stops nobody. A stack is taken once a second and takes longer than a read does: where it
stands in the program, and whether it waits at that moment for a disk, a network's file system or FUSE, cannot be asked
in one. The state D alone does not tell: who waits for FUSE or NFS may be in S, and drivers wait in D too.
"""

from gpudoctor.knowledge.place_markers import NO_MEMORY, kernel_name
from gpudoctor.read.job import granted
from gpudoctor.read.job.sampling import syscall_of
from gpudoctor.read.process import TIMERS, parse_stat, waits_in
from gpudoctor.read.system import System

BETWEEN_SECONDS = 0.125
OF_FILES = frozenset(
    {"read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2"}
    | {"fsync", "fdatasync"}
)
OF_PATHS = frozenset(
    {"open", "openat", "stat", "lstat", "newfstatat", "statx", "getdents64", "rename", "renameat", "renameat2"}
    | {"unlink", "unlinkat"}
)
NO_STORAGE = ("/dev/", "/proc/", "/sys/", "/memfd:", "/dmabuf:")


class FileWaits:
    """Of one process."""

    def __init__(self, system: System, pid: int) -> None:
        self._system, self._pid = system, pid
        self.looks = self.waits = self.for_memory = 0
        self._counted = granted.over_high(system, pid)
        self.file = ""
        """That it has waited for, the last one; empty where that is not told."""

    def look(self) -> None:
        """Once."""
        folder = f"/proc/{self._pid}/task/{self._pid}"
        try:
            state = parse_stat(self._system.text(f"{folder}/stat")).state
        except (OSError, ValueError):
            return
        self.looks += 1
        if state not in "SD":
            return
        if state == "D" and self._is_held_for_memory():
            self.for_memory += 1
            return
        name, descriptor = syscall_of(self._system, folder)
        if name in OF_FILES and descriptor is not None:
            file = self._system.link_or_empty(f"/proc/{self._pid}/fd/{descriptor}")
            if file.startswith("/") and not file.startswith(NO_STORAGE) and not self._is_of_a_pipe():
                self.waits, self.file = self.waits + 1, file
            elif not file:  # closed meanwhile, or not for us to see
                self.waits += state == "D"
        elif name in OF_PATHS:
            self.waits += not self._is_of_a_pipe()
        elif not name:  # not told, or a page that is read from a file that lies in memory
            self.waits += state == "D"

    def _is_held_for_memory(self) -> bool:
        """By the kernel's function; where that tells nothing, by its cgroup, which is over memory.high and counts that
        since the last look (v2; anybody may read it)."""
        name = kernel_name(waits_in(self._pid, self._system))
        if name in NO_MEMORY:
            return True
        counted, self._counted = self._counted, granted.over_high(self._system, self._pid)
        told = name and not name.startswith(TIMERS)
        return not told and counted is not None and self._counted is not None and self._counted > counted

    def _is_of_a_pipe(self) -> bool:
        """One with a name in a folder: who waits there waits for a program."""
        kernel = waits_in(self._pid, self._system)
        return "pipe" in kernel or "fifo" in kernel or "partner" in kernel
