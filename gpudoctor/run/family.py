"""Which processes belong to the job, seen while they live: afterwards the kernel's log names them by number only."""

import os
import time

from gpudoctor.read import process as processes

FIRST_SECONDS, MOST_SECONDS = 0.5, 5.0
"""From look to look: it takes half a millisecond, and grows with the job's processes."""
MOST_PROCESSES = 4096
GENERATIONS = 6
"""A shell, a launcher, its ranks, their loaders."""


class JobProcesses:
    """Of one command."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._next = time.monotonic() + FIRST_SECONDS
        self._pause = FIRST_SECONDS
        self._ooms = _oom_kills()
        self.pids: set[int] = {pid}

    def look(self) -> None:
        """Called often; looks now and then."""
        if time.monotonic() < self._next:
            return
        self._pause = min(self._pause * 2, MOST_SECONDS)
        self._next = time.monotonic() + self._pause
        young: tuple[int, ...] = (self._pid,)
        for _ in range(GENERATIONS):
            young = tuple(child for pid in young for child in processes.children_of(pid))
            self.pids.update(young)
            if not young or len(self.pids) > MOST_PROCESSES:
                break

    @property
    def oom_kills(self) -> int | None:
        """Processes of our cgroup that the kernel has ended for want of memory since the start; None: not told."""
        now = _oom_kills()
        return None if now is None or self._ooms is None else max(0, now - self._ooms)


def _oom_kills() -> int | None:
    from gpudoctor.read.job.files import oom_kills  # when the command runs already

    return oom_kills(processes.THIS, os.getpid())
