"""Which processes belong to the job, seen while they live: afterwards the kernel's log names them by number only."""

import os
import time
from collections.abc import Mapping

from gpudoctor.read import process as processes
from gpudoctor.read.cgroup import oom_kills_in, oom_place
from gpudoctor.run.endings import PYTHONS, Endings, ProcessEnded

FIRST_SECONDS, MOST_SECONDS = 0.25, 2.0
"""From look to look: it takes half a millisecond, and grows with the job's processes."""
MOST_PROCESSES = 4096
MOST_CGROUPS = 64
GENERATIONS = 6
"""A shell, a launcher, its ranks, their loaders."""


class JobProcesses:
    """Of one command."""

    def __init__(self, pid: int, began: float) -> None:
        self._pid = pid
        self._next = time.monotonic() + FIRST_SECONDS
        self._pause = FIRST_SECONDS
        self._cgroups: set[str] = set()
        self._ooms: dict[str, int] = {}
        """By the file that counts them, of each memory cgroup that the job is in: the count when it was first seen."""
        self._endings = Endings(began)
        self.pids: set[int] = {pid}
        self.name = ""
        """Of the command's program, as the kernel calls it: nohup and env become another."""
        self._count_in(os.getpid())

    def look(self) -> None:
        """Called often; looks now and then."""
        if time.monotonic() < self._next:
            return
        self._pause = min(self._pause * 2, MOST_SECONDS)
        self._next = time.monotonic() + self._pause
        self._endings.describe()
        self.name = processes.name_of(self._pid) or self.name
        young: tuple[int, ...] = (self._pid,)
        for _ in range(GENERATIONS):
            young = tuple(child for pid in young for child in processes.children_of(pid))
            for pid in {*young} - self.pids:
                self._endings.add(pid)
                self._count_in(pid)
            self.pids.update(young)
            if not young or len(self.pids) > MOST_PROCESSES:
                break

    @property
    def ranks(self) -> tuple[int, ...]:
        """Processes of it that may be ranks, and live as far as is known; the command itself first, where it is one."""
        own = (self._pid,) if self.name.startswith(PYTHONS) else ()
        return (*own, *self._endings.ranks())

    def name_ranks(self, ranks: Mapping[int, int]) -> None:
        """What armed processes say of themselves: those of spawn have no RANK that others see."""
        self._endings.name_ranks(ranks)

    @property
    def ended(self) -> tuple[ProcessEnded, ...]:
        """Processes of it that have not ended well, the first first."""
        return self._endings.abnormal()

    @property
    def left_behind(self) -> tuple[int, ...]:
        """Ranks that live, though a signal has ended what had started them."""
        return self._endings.left_behind()

    @property
    def seen_ended(self) -> tuple[ProcessEnded, ...]:
        """The same, as far as is known by now."""
        return self._endings.seen()

    @property
    def oom_kills(self) -> int | None:
        """Processes of a cgroup of the job that the kernel has ended for want of memory since the start; None: not
        told. Of nested ones the outer counts what the inner has counted, so that the largest number holds."""
        kills = [now - before for path, before in self._ooms.items() if (now := _kills(path)) is not None]
        return max(0, *kills) if kills else None

    def _count_in(self, pid: int) -> None:
        membership = processes.THIS.text_or_empty(f"/proc/{pid}/cgroup")
        if membership and membership not in self._cgroups and len(self._cgroups) < MOST_CGROUPS:
            self._cgroups.add(membership)
            path = oom_place(processes.THIS, membership)
            if path not in self._ooms and (kills := _kills(path)) is not None:
                self._ooms[path] = kills


def _kills(path: str) -> int | None:
    return oom_kills_in(processes.THIS, path)
