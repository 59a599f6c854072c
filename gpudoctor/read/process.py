"""Processes of this machine: what /proc/PID/stat says of one, who descends from whom, where it waits, ending it.

From /proc (Linux); elsewhere nothing is found. A number is used again once its process is gone, so a `Process`
carries its start time, and a signal is sent to that one only. Nothing here takes the lock of a process's memory, so
one that waits in the kernel can be looked at like any other.
"""

import errno
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpudoctor.read.system import System

THIS = System()
"""This machine."""
KERNEL_THREAD, EXITING = 0x00200000, 0x00000004  # PF_* of <linux/sched.h>, in the flags of /proc/PID/stat
MOST_GENERATIONS = 64
"""Between an agent and its ranks there are two or three; the bound is for a table that changes under us."""
MOST_THREADS = 8
"""Of a process, the first ones: whoever starts ranks and data loaders does so from one of them."""
ENDED = ("Z", "X")
PID_NAMESPACE = "/proc/self/ns/pid"
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""PROC_PID_INIT_INO of <linux/proc_ns.h>: the inode of the namespace that the kernel booted with."""


class ProcStat(NamedTuple):
    """What /proc/PID/stat says (proc(5)), of a process or of a thread."""

    pid: int
    name: str
    state: str
    """ "R", "S", "D" (waits in the kernel), "T" (stopped), "t" (traced), "Z" (ended, not yet waited for), ..."""
    parent: int
    flags: int
    start_ticks: int
    """Clock ticks after boot; with the number, it names a process for good."""
    exit_code: int = 0
    """Of state Z, as waitpid(2) gives it; 0 where the kernel does not tell."""
    cpu_ticks: int = 0
    """Spent in user and kernel mode."""

    @property
    def is_kernel_thread(self) -> bool:
        return bool(self.flags & KERNEL_THREAD)

    @property
    def is_exiting(self) -> bool:
        """It runs no more: it gives back what it held, which takes a tenth of a second a GiB, or has ended."""
        return bool(self.flags & EXITING)

    @property
    def printable(self) -> str:
        """The name, with what is no text escaped."""
        return self.name.encode("utf-8", "backslashreplace").decode()


def parse_stat(text: str) -> ProcStat:
    """One /proc/PID/stat. Names may hold blanks and parentheses. Raises `ValueError`."""
    front, _, rest = text.rpartition(")")
    pid, opening, name = front.partition("(")
    fields = rest.split()
    if not opening or len(fields) < 20 or len(fields[0]) != 1:
        raise ValueError(f"not a process status: {text[:80]!r}")
    exit_code = int(fields[49]) if len(fields) > 49 else 0
    ticks = int(fields[11]) + int(fields[12])
    return ProcStat(int(pid), name, fields[0], int(fields[1]), int(fields[6]), int(fields[19]), exit_code, ticks)


def processes(system: System = THIS) -> Iterator[ProcStat]:
    """Every process that is visible; those that end while we look are passed over. Raises `OSError`."""
    for name in system.names("/proc"):
        if name.isascii() and name.isdigit():
            try:
                yield parse_stat(system.text(f"/proc/{name}/stat"))
            except ValueError:
                continue
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                    raise  # it is there, and we cannot look: that must not pass for its absence
                continue


def look(pid: int, system: System = THIS) -> ProcStat | None:
    """The process that has this number now; None where there is none. Raises `OSError` where it cannot be looked at (no
    descriptor or memory is left): that is no end of it."""
    try:
        return parse_stat(system.text(f"/proc/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    except ValueError as error:
        raise OSError(str(error)) from None


def seen(pid: int) -> ProcStat | None:
    """As `look`; None also where it cannot be looked at."""
    try:
        return look(pid)
    except OSError:
        return None


def now(process: ProcStat) -> ProcStat | None:
    """The same process as it is now; None when it is gone. One that cannot be looked at is as it was."""
    try:
        process_now = look(process.pid)
    except OSError:
        return process
    return process_now if process_now is not None and process_now.start_ticks == process.start_ticks else None


def lives(process: ProcStat) -> bool:
    """It can still run: neither gone nor ended."""
    process_now = now(process)
    return process_now is not None and process_now.state not in ENDED


def tell(process: ProcStat, number: int) -> bool:
    """Send a signal, if it is still this process that has the number. Whether it was sent."""
    if not lives(process):
        return False
    try:
        os.kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end(family: Iterable[ProcStat], *, patience: float) -> tuple[ProcStat, ...]:
    """Kill them, and wait until they are gone; those that still are there after `patience` seconds."""
    left = [process for process in family if tell(process, signal.SIGKILL)]
    deadline = time.monotonic() + patience
    while left and time.monotonic() < deadline:
        left = [process for process in left if lives(process)]
        if left:
            time.sleep(0.005)
    return tuple(left)


def descendants(pid: int) -> tuple[ProcStat, ...]:
    """Its children, their children and so on, as they are now."""
    children: dict[int, list[ProcStat]] = {}
    try:
        for process in processes():
            children.setdefault(process.parent, []).append(process)
    except OSError:
        pass  # what was seen until then is better than nothing
    family: list[ProcStat] = []
    generation = [pid]
    while generation:
        young = [child for parent in generation for child in children.pop(parent, ())]
        family += young
        generation = [child.pid for child in young]
    return tuple(family)


def ancestors(pid: int, system: System = THIS) -> Iterator[int]:
    """Its parent, the parent's parent and so on, as far as /proc tells."""
    for _ in range(MOST_GENERATIONS):
        try:
            process = look(pid, system)
        except OSError:
            return
        if process is None or process.parent < 1:
            return
        yield (pid := process.parent)


def catches(pid: int, number: int) -> bool:
    """Whether it has a handler for this signal; without one, SIGUSR1 would end it."""
    try:
        return bool(int(fields_of(pid)["SigCgt"], 16) >> (number - 1) & 1)
    except (OSError, KeyError, ValueError):
        return False


def fields_of(task: int | str, system: System = THIS) -> dict[str, str]:
    """What /proc/PID/status says, by its names. Raises `OSError`."""
    lines = (line.partition(":") for line in system.text(f"/proc/{task}/status").splitlines())
    return {name: value.strip() for name, _, value in lines}


def numbers_of(task: int | str, field: str, system: System = THIS) -> list[int]:
    """The numbers of a field of /proc/PID/status, such as its users; none where it is not told."""
    try:
        return [int(number) for number in fields_of(task, system).get(field, "").split()]
    except (OSError, ValueError):
        return []


def name_of(pid: int) -> str:
    """What the kernel calls it, at most 15 letters; empty where it is gone."""
    return THIS.text_or_empty(f"/proc/{pid}/comm").strip("\n")


def children_of(pid: int) -> tuple[int, ...]:
    """Those that its threads have started and that live. Cheaper than `descendants`, for whoever asks again."""
    children: list[int] = []
    for task in THIS.names_or_none(f"/proc/{pid}/task")[:MOST_THREADS]:
        words = THIS.text_or_empty(f"/proc/{pid}/task/{task}/children").split()
        children += [int(word) for word in words if word.isdigit()]
    return tuple(children)


def all_ignore(pid: int, number: int, system: System = THIS) -> bool:
    """Whether a process and all below it ignore that signal, as far as the kernel tells."""
    masks = [
        re.search(r"^SigIgn:\s*([0-9a-f]{1,32})$", system.text_or_empty(f"/proc/{each}/status"), re.MULTILINE)
        for each in (pid, *(child.pid for child in descendants(pid)))
    ]
    told = [int(mask[1], 16) for mask in masks if mask is not None]
    return bool(told) and all(mask >> (number - 1) & 1 for mask in told)


def waits_in(task: int | str, system: System = THIS) -> str:
    """The kernel function that a process, or "PID/task/TID", sleeps in; empty when it does not, or the kernel does not
    tell (it shows "0" to those who may not know)."""
    try:
        name = system.raw(f"/proc/{task}/wchan", 128).decode("ascii", "replace").strip("\0\n ")
    except OSError:
        return ""
    if name.startswith(TIMERS) and (held := _held_for_memory(task, system)):
        return held
    return "" if name == "0" else name


TIMERS = ("process_timeout", "schedule_timeout", "io_schedule_timeout")
"""What some kernels (user-mode Linux, those without frame pointers) tell of whoever waits with a limit."""


def _held_for_memory(task: int | str, system: System) -> str:
    """The function in which the cgroup's memory holds it, as its stack in the kernel tells root."""
    from gpudoctor.knowledge.place_markers import NO_MEMORY  # here, for it loads much

    frames = re.findall(r"(?m)^\[<[^>]{1,20}>\] ([\w.]{1,80})\+", system.text_or_empty(f"/proc/{task}/stack"))
    return next((frame for frame in frames if frame in NO_MEMORY), "")


def oom_kills() -> int | None:
    """How many processes the OOM killer has ended on this machine since boot, of any cgroup; None: not told.

    The counter `oom_kill` of /proc/vmstat (Linux 4.13 on); every user may read it.
    """
    match = re.search(r"^oom_kill ([0-9]{1,18})$", THIS.text_or_empty("/proc/vmstat"), re.MULTILINE)
    return int(match[1]) if match else None


def uptime(system: System) -> float | None:
    try:
        return float(system.text("/proc/uptime").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def age_seconds(process: ProcStat, uptime: float | None) -> float | None:
    """How long it has run; None where the machine does not tell since when it runs itself."""
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    return None if uptime is None else max(0.0, uptime - process.start_ticks / ticks)


PIDFD_GET_INFO = 0xC040FF0B
"""_IOWR(0xFF, 11, struct pidfd_info) of <linux/pidfd.h> in its first form: 64 bytes, the last field is exit_code."""
PIDFD_INFO_EXIT = 1 << 3
ASKED_TIMES = 40


def status_of_ended(pid: int, pidfd: int) -> int | None:
    """How one that is no child of ours ended: its exit status, below 0 the signal; None: nobody told.

    Asked at once: until its parent has waited for it /proc tells, and afterwards the pidfd does (Linux 6.15 on).
    """
    import fcntl
    import struct

    for _ in range(ASKED_TIMES):
        status = seen(pid)
        if status is not None and status.state in ENDED:
            return os.waitstatus_to_exitcode(status.exit_code)
        info = bytearray(struct.pack("Q56x", PIDFD_INFO_EXIT))
        try:
            fcntl.ioctl(pidfd, PIDFD_GET_INFO, info, True)
        except OSError:
            return None
        if struct.unpack_from("Q", info)[0] & PIDFD_INFO_EXIT:
            return os.waitstatus_to_exitcode(struct.unpack_from("i", info, 60)[0])
        time.sleep(0.005)
    return None


def open_files(system: System, pid: int) -> list[str]:
    """The targets of a process's file descriptors; none where they may not be read."""
    folder = f"/proc/{pid}/fd"
    targets = []
    try:
        for name in system.names(folder):
            targets.append(system.link(f"{folder}/{name}"))
    except OSError:
        pass  # another user's, or it ended
    return targets


def in_first_pid_namespace(system: System = THIS) -> bool:
    """Whether a pid means the same process here as to the kernel's log and to NVML. Raises `OSError`."""
    return system.link(PID_NAMESPACE) == INITIAL_PID_NAMESPACE


def hidden_processes(system: System) -> str:
    """Why processes of this machine may be out of sight, as a phrase; empty when all are seen."""
    if not in_first_pid_namespace(system):
        return "processes outside this PID namespace are not visible; run gpudoctor on the host"
    try:
        system.text("/proc/1/stat")
    except OSError:  # /proc is mounted with hidepid
        return "processes of other users are hidden from this one (hidepid); run gpudoctor as root"
    return ""
