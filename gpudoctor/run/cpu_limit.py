"""Whether a process of the job had used up the processor time that it may have (`ulimit -t`) when SIGKILL ended it.

A shell's `ulimit -t` and prlimit set both limits at once, and then the kernel sends SIGKILL and no SIGXCPU before it
(kernel/time/posix-cpu-timers.c, check_process_timers): nothing but the time itself tells why.
"""

import os
import time

from gpudoctor.read import process as processes
from gpudoctor.read.system import System

LIMIT = "Max cpu time"
TICKS = os.sysconf("SC_CLK_TCK")
SEEN, NEAR = 0.5, 0.9
"""Of the limit: that it was seen to have used, and that it may have used by its end."""


class CpuLimits:
    """Of one job. A thread asks about deaths while another looks."""

    def __init__(self, system: System = processes.THIS) -> None:
        self._system = system
        self._limits: dict[int, float] = {}
        self._used: dict[int, tuple[float, float]] = {}

    def join(self, pid: int) -> None:
        """A process of the job, as it is now: its limits may change before it becomes another program."""
        for line in self._system.text_or_empty(f"/proc/{pid}/limits").splitlines():
            if line.startswith(LIMIT):
                hard = line.removeprefix(LIMIT).split()[1]
                if hard.isdigit():
                    self._limits[pid] = float(hard)
                else:
                    self._limits.pop(pid, None)

    def look(self) -> None:
        """Called now and then."""
        for pid in list(self._limits):
            if (process := processes.look(pid, self._system)) is not None:
                self._used[pid] = process.cpu_ticks / TICKS, time.monotonic()

    def at_death(self, pid: int) -> float:
        """The limit that it had come to, in seconds; 0: none."""
        limit, (used, at) = self._limits.get(pid, 0.0), self._used.get(pid, (0.0, 0.0))
        could = used + (time.monotonic() - at) * (os.cpu_count() or 1)
        return limit if limit and at and used >= SEEN * limit and could >= NEAR * limit else 0.0
