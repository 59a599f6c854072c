"""Which processes belong to the job, seen while they live: afterwards the kernel's log names them by number only."""

import time
from collections.abc import Mapping

from gpudoctor.read import process as processes
from gpudoctor.run.cpu_limit import CpuLimits
from gpudoctor.run.endings import PYTHONS, Endings, ProcessEnded
from gpudoctor.run.memory import MemorySeen, OomCounters
from gpudoctor.run.unarmed import own_unarmed

FIRST_SECONDS, MOST_SECONDS = 0.25, 2.0
"""From look to look: it takes half a millisecond, and grows with the job's processes."""
YOUNG = 1 / 30
"""Of its age, the pause to the next look: what dies young has lived for less than two seconds."""
MOST_PROCESSES = 4096
OWN_SECONDS = 10.0
"""From look to look whether the command itself is a training that is not armed."""
GENERATIONS = 6
"""A shell, a launcher, its ranks, their loaders."""


class JobProcesses:
    """Of one command."""

    def __init__(self, pid: int, began: float) -> None:
        self._pid = pid
        self._next = time.monotonic() + FIRST_SECONDS
        self._began = began
        self._memory = OomCounters()
        self._memory.join(pid)
        self.memory_seen = MemorySeen()
        self._cpu = CpuLimits()
        self.cpu_limit = 0.0
        """Of the command itself, where it had used it up and was killed."""
        self._endings = Endings(began, self._memory.at_death, self._cpu.at_death)
        self.pids: set[int] = {pid}
        self._own_unarmed = ""
        self._own_look = self._next + OWN_SECONDS
        self.name = ""
        """Of the command's program, as the kernel calls it: nohup and env become another."""

    def look(self) -> None:
        """Called often; looks now and then."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + min(max(FIRST_SECONDS, YOUNG * (now - self._began)), MOST_SECONDS)
        for pid in (self._pid, *self._endings.describe()):
            self._memory.join(pid)
            self._cpu.join(pid)
        self.name = processes.name_of(self._pid) or self.name
        if now >= self._own_look and not self._own_unarmed and self.name.startswith(PYTHONS):
            self._own_look = now + OWN_SECONDS
            self._own_unarmed = own_unarmed(self._pid)
        young: tuple[int, ...] = (self._pid,)
        for _ in range(GENERATIONS):
            young = tuple(child for pid in young for child in processes.children_of(pid))
            for pid in {*young} - self.pids:
                self._endings.add(pid)
                self._memory.join(pid)
                self._cpu.join(pid)
            self.pids.update(young)
            if not young or len(self.pids) > MOST_PROCESSES:
                break
        self._memory.look(self.pids)
        self._cpu.look()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Processes of it that may be ranks, and live as far as is known; the command itself first, where it is one."""
        own = (self._pid,) if self.name.startswith(PYTHONS) else ()
        return (*own, *self._endings.ranks())

    def name_ranks(self, ranks: Mapping[int, int]) -> None:
        """What armed processes say of themselves: those of spawn have no RANK that others see."""
        self._endings.name_ranks(ranks)

    def over(self) -> tuple[ProcessEnded, ...]:
        """The command has ended: processes of it that have not ended well, the first first."""
        self._memory.look(self.pids)
        oom = self._memory.at_death(self._pid)
        self.cpu_limit = self._cpu.at_death(self._pid)
        ended = self._endings.abnormal()
        rise = self._memory.own_rise
        seconds = rise - self._began if rise is not None else None
        self.memory_seen = MemorySeen(kills=self._memory.kills, of_command=oom, own_seconds=seconds)
        return ended

    @property
    def attempt(self) -> int:
        """Of torchrun's, the newest; the first is 0."""
        return self._endings.attempt()

    @property
    def unarmed(self) -> tuple[str, ...]:
        """Why ranks of it, or a training that is the command itself, cannot have been armed: one reason each."""
        return tuple(filter(None, (self._endings.unarmed or {self._pid: self._own_unarmed}).values()))

    @property
    def left_behind(self) -> tuple[int, ...]:
        """Ranks that live, though a signal has ended what had started them."""
        return self._endings.left_behind()

    @property
    def seen_ended(self) -> tuple[ProcessEnded, ...]:
        """The same, as far as is known by now."""
        return self._endings.seen()
