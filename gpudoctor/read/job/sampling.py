"""One look at a process and its threads: states, CPU time, context switches, where in the kernel each sleeps.

From /proc/PID and /proc/PID/task/TID (proc(5)): nothing here takes the lock of the process's memory, so a process that
waits in the kernel can be looked at like any other.
"""

import os
import platform
import re

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.read.process import look, parse_stat, waits_in
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import Sample, Thread

MOST_THREADS = 512
"""A rank has one a core from OpenMP and autograd each; the main thread and the oldest are told."""
SWITCHES = lazy_re(r"ctxt_switches:\s*([0-9]{1,19})")
SYSCALLS = {
    "x86_64": {
        0: "read",
        1: "write",
        2: "open",
        4: "stat",
        5: "fstat",
        6: "lstat",
        7: "poll",
        16: "ioctl",
        17: "pread64",
        18: "pwrite64",
        19: "readv",
        20: "writev",
        23: "select",
        34: "pause",
        35: "nanosleep",
        42: "connect",
        43: "accept",
        44: "sendto",
        45: "recvfrom",
        46: "sendmsg",
        47: "recvmsg",
        61: "wait4",
        72: "fcntl",
        73: "flock",
        74: "fsync",
        75: "fdatasync",
        82: "rename",
        87: "unlink",
        128: "rt_sigtimedwait",
        130: "rt_sigsuspend",
        202: "futex",
        217: "getdents64",
        230: "clock_nanosleep",
        232: "epoll_wait",
        247: "waitid",
        257: "openat",
        262: "newfstatat",
        270: "pselect6",
        271: "ppoll",
        281: "epoll_pwait",
        288: "accept4",
        295: "preadv",
        296: "pwritev",
        327: "preadv2",
        328: "pwritev2",
        332: "statx",
        449: "futex_waitv",
    },
    "aarch64": {
        22: "epoll_pwait",
        25: "fcntl",
        29: "ioctl",
        32: "flock",
        35: "unlinkat",
        38: "renameat",
        56: "openat",
        61: "getdents64",
        63: "read",
        64: "write",
        65: "readv",
        66: "writev",
        67: "pread64",
        68: "pwrite64",
        69: "preadv",
        70: "pwritev",
        72: "pselect6",
        73: "ppoll",
        79: "newfstatat",
        82: "fsync",
        83: "fdatasync",
        95: "waitid",
        98: "futex",
        101: "nanosleep",
        115: "clock_nanosleep",
        133: "rt_sigsuspend",
        137: "rt_sigtimedwait",
        202: "accept",
        203: "connect",
        206: "sendto",
        207: "recvfrom",
        211: "sendmsg",
        212: "recvmsg",
        242: "accept4",
        260: "wait4",
        276: "renameat2",
        286: "preadv2",
        287: "pwritev2",
        291: "statx",
    },
}
"""Of those that a training process may wait in; asm/unistd_64.h and asm-generic/unistd.h of Linux."""
WITH_DESCRIPTOR = frozenset(
    {
        "read",
        "write",
        "pread64",
        "pwrite64",
        "readv",
        "writev",
        "preadv",
        "pwritev",
        "preadv2",
        "pwritev2",
        "ioctl",
        "fcntl",
        "flock",
        "fsync",
        "fdatasync",
    }
    | {"connect", "accept", "accept4", "sendto", "recvfrom", "sendmsg", "recvmsg", "epoll_wait", "epoll_pwait"}
)
"""Their first argument is a file descriptor."""


def sample(system: System, pid: int, started: int, at: float) -> Sample | None:
    """The process as it is now, without stacks; None when it is gone. `at`: seconds, as `Sample.at`.

    Raises `OSError` where it cannot be looked at.
    """
    process = look(pid, system)
    if process is None or process.start_ticks != started:
        return None
    ended = process.state in "ZX"
    received, written = (None, None) if ended else _bytes(system, pid)
    return Sample(
        at=round(at, 3),
        state=process.state,
        cpu_seconds=_seconds(process.cpu_ticks),
        read_bytes=received,
        written_bytes=written,
        threads=() if ended else threads(system, pid),
    )


def threads(system: System, pid: int) -> tuple[Thread, ...]:
    """The main thread first, then the others by number."""
    try:
        numbers = sorted(int(name) for name in system.names(f"/proc/{pid}/task") if name.isdecimal())
    except OSError:
        return ()
    numbers.sort(key=lambda number: number != pid)
    read = (_thread(system, pid, number) for number in numbers[:MOST_THREADS])
    return tuple(thread for thread in read if thread is not None)


def _thread(system: System, pid: int, number: int) -> Thread | None:
    folder = f"/proc/{pid}/task/{number}"
    try:
        stat = parse_stat(system.text(f"{folder}/stat"))
    except (OSError, ValueError):
        return None
    ran, delayed = _run_times(system, folder, stat.cpu_ticks)
    return Thread(
        id=number,
        name=stat.printable,
        state=stat.state,
        cpu_seconds=ran,
        delayed_seconds=delayed,
        switches=_switches(system, folder),
        waits_in="" if stat.state == "R" else waits_in(f"{pid}/task/{number}", system),
        syscall=_syscall(system, folder),
    )


def _run_times(system: System, folder: str, ticks: int) -> tuple[float | None, float | None]:
    """Seconds on a processor and waiting for one: in nanoseconds from schedstat, else the first in ticks of 10 ms."""
    try:
        ran, delayed = map(int, system.text(f"{folder}/schedstat").split()[:2])
    except (OSError, ValueError):
        return _seconds(ticks), None
    return ran / 1e9, delayed / 1e9


def _seconds(ticks: int) -> float | None:
    return ticks / os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else None


def _switches(system: System, folder: str) -> int | None:
    try:
        counts = SWITCHES.findall(system.text(f"{folder}/status"))
    except OSError:
        return None
    return sum(map(int, counts)) if counts else None


def _syscall(system: System, folder: str) -> str:
    """ "read(3, ...)"; empty where the kernel does not tell, or it is in none."""
    try:
        words = system.raw(f"{folder}/syscall", 256).decode("ascii", "replace").split()
    except OSError:  # no right to it, or a kernel without CONFIG_HAVE_ARCH_TRACEHOOK
        return ""
    return syscall(words, platform.machine())


def syscall_of(system: System, folder: str) -> tuple[str, int | None]:
    """Its name and, where it takes one, the descriptor; the name is empty where `_syscall` tells nothing."""
    match = re.fullmatch(r"(.*)\((?:([0-9]+), )?\.\.\.\)", _syscall(system, folder))
    return (match[1], int(match[2]) if match[2] else None) if match else ("", None)


def syscall(words: list[str], machine: str) -> str:
    """The words of /proc/PID/syscall as text: its number and six arguments."""
    if not words or not re.fullmatch("[0-9]{1,5}", words[0]):
        return ""
    name = SYSCALLS.get(machine, {}).get(int(words[0]), f"syscall {words[0]}")
    if name in ("select", "pselect6") and words[1:2] == ["0x0"]:
        return f"{name}(0, ...)"  # no descriptor: time.sleep of Python before 3.11
    if name in WITH_DESCRIPTOR and len(words) > 1 and re.fullmatch("0x[0-9a-f]{1,8}", words[1]):
        return f"{name}({int(words[1], 16)}, ...)"
    return f"{name}(...)"


def _bytes(system: System, pid: int) -> tuple[int | None, int | None]:
    """rchar and wchar of /proc/PID/io; None where it may not be read."""
    text = system.text_or_empty(f"/proc/{pid}/io")
    counters = {name: int(number) for name, number in re.findall(r"^(rchar|wchar): ([0-9]{1,19})$", text, re.MULTILINE)}
    return counters.get("rchar"), counters.get("wchar")


def with_stacks(taken: Sample, stacks: tuple[Thread, ...], by: str) -> Sample:
    """A sample with the frames that a stack reader gave, joined by the kernel's number.

    A thread that only one of the two saw stays as that one says.
    """
    if not by:
        return taken
    by_id = {thread.id: thread for thread in stacks if thread.id}
    joined = [_joined(thread, by_id.pop(thread.id, None)) for thread in taken.threads]
    joined += by_id.values()
    joined += [thread for thread in stacks if not thread.id]
    return structs.replace(taken, threads=tuple(joined), stacks_by=by)


def _joined(kernel: Thread, python: Thread | None) -> Thread:
    if python is None:
        return kernel
    name = python.name or kernel.name
    return structs.replace(kernel, name=name, owns_gil=python.owns_gil, frames=python.frames)
