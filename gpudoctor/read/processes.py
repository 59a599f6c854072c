"""Processes that matter to GPUs: the fabric manager, and what hangs in the kernel or was never reaped.

Of a process that sleeps uninterruptibly only `stat`, `status`, `wchan` and `fd` are read: `cmdline` and `maps` take
the lock of its memory, which the fault it waits in may hold for ever.
"""

import os
import re
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

from gpudoctor.lazy import lazy_re
from gpudoctor.read.process import ProcStat, age_seconds, hidden_processes, open_files, processes, uptime, waits_in
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import Reading, StuckProcess, missing, read

FABRIC_MANAGER = "nv-fabricmanager"[:15]  # TASK_COMM_LEN is 16 with the final zero

RELEVANT = lazy_re(r"nvidia|^nv-|python|torchrun|pt_main_thread|deepspeed|accelerate|ray::|nccl|dcgm|cuda")
"""Names under which training and NVIDIA's own programs run; torch renames its main thread to pt_main_thread."""
GPU_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD", "/dev/accel")

SECOND_LOOK_SECONDS = 0.5
"""Reading a disk puts a healthy process in state D for milliseconds, and a parent reaps its child as soon as it is
scheduled. What sits in the same sleep half a second later (no context switch in between) is stuck."""


# --- stuck processes ----------------------------------------------------------------------------------------------


@reader("stuck processes", "host.stuck_processes")
def read_stuck(system: System, pause: Callable[[float], None] = time.sleep) -> Reading[tuple[StuckProcess, ...]]:
    """Processes in state D or Z that hold a GPU or look like training, seen twice."""
    source = "/proc/*/stat"

    def look() -> tuple[StuckProcess, ...]:
        first = _suspects(system)
        if not first:
            return ()
        pause(SECOND_LOOK_SECONDS)
        second = _suspects(system)
        return tuple(_described(system, suspect.process) for suspect in first if suspect in second)

    reading = attempt(source, look, must_exist=True)
    if reading.is_read and not reading.value and (reason := _hidepid(system)):
        return missing(source, reason, "denied")
    return reading


class _Suspect(NamedTuple):
    """A process in a sleep: equal in both looks when it never woke."""

    process: ProcStat
    switches: str


def _suspects(system: System) -> list[_Suspect]:
    return [
        _Suspect(process, _context_switches(system, process.pid))
        for process in processes(system)
        if process.state in "DZ"
        and not process.is_kernel_thread
        # The doctor's other children: one that has just ended is a zombie until it is collected.
        and process.parent != os.getppid()
        and _concerns_gpus(system, process)
    ]


def _concerns_gpus(system: System, process: ProcStat) -> bool:
    return RELEVANT.search(process.name.lower()) is not None or any(
        target.startswith(GPU_DEVICES) for target in open_files(system, process.pid)
    )


def _context_switches(system: System, pid: int) -> str:
    return " ".join(re.findall(r"ctxt_switches:\s*([0-9]+)", system.text_or_empty(f"/proc/{pid}/status")))


def _described(system: System, process: ProcStat) -> StuckProcess:
    return StuckProcess(
        pid=process.pid,
        name=process.name,
        state=cast(Literal["D", "Z"], process.state),
        waits_in=waits_in(process.pid, system),
        parent_pid=process.parent,
        age_seconds=age_seconds(process, uptime(system)),
    )


def _hidepid(system: System) -> str:
    """Nothing stuck in sight is no all-clear when other users' processes are hidden.

    Those outside the PID namespace are another matter: a container's own are what its user can act on.
    """
    try:
        reason = hidden_processes(system)
    except OSError:
        return ""
    return reason if "hidepid" in reason else ""


# --- fabric manager -----------------------------------------------------------------------------------------------

FABRIC_LOG = "/var/log/fabricmanager.log"
STARTED = lazy_re(r"Fabric Manager version ([0-9][0-9.]+) is running")
DEBIAN_STATUS = "/var/lib/dpkg/status"
DEBIAN_PACKAGE = lazy_re(
    r"^Package: (?:cuda-drivers|nvidia)-fabricmanager(?:-[0-9]+)?\nStatus: install ok installed\n(?:.+\n)*?"
    r"Version: (?:[0-9]+:)?([0-9][0-9.]+)",
    re.MULTILINE,
)


def fabric_manager_version(system: System) -> str:
    """What the running one wrote into its log when it started, else the installed package's; "running" if neither."""
    for path, pattern in ((FABRIC_LOG, STARTED), (DEBIAN_STATUS, DEBIAN_PACKAGE)):
        if versions := pattern.findall(system.text_or_empty(path)):
            return str(versions[-1])
    return "running"


def is_fabric_manager(process: ProcStat) -> bool:
    return process.name == FABRIC_MANAGER and process.state != "Z"


@reader("fabric manager", "host.fabric_manager")
def read_fabric_manager(system: System) -> Reading[Any]:
    """Whether nv-fabricmanager runs. Not seen from inside a container is not the same as not running."""
    source = "/proc/*/comm"
    running = attempt(source, lambda: any(is_fabric_manager(process) for process in processes(system)), must_exist=True)
    if not running.is_read:
        return running
    if running.value:
        return read(source, fabric_manager_version(system))
    reason = attempt(source, lambda: hidden_processes(system), must_exist=True)
    return missing(source, reason.value, "denied") if reason.is_read and reason.value else reason
