"""Whether the kernel has ended a process of the job for want of memory, by the counters of the cgroups that it is in.

Such a counter counts whoever is in the cgroup: in a container, on a shared machine, strangers too. The kernel counts
before it kills (mm/oom_kill.c), so what it has ended finds the counter risen when it is gone. A rise tells of the job
where a process of it dies of SIGKILL at that time; alone it does only where nobody else is in that cgroup. Where a
stranger went at that time too, it may have been either.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from gpudoctor.read import process as processes
from gpudoctor.read.cgroup import oom_kills_in, oom_place, pids_counted_in
from gpudoctor.read.system import System

Oom = Literal["", "either", "shared", "own"]
"""Of a death: nothing, or a rise of the counter of a cgroup: in which nobody else is; in which others are too, and
live; of which as many have gone at that time as were ended for want of memory."""
AT_ONCE: Mapping[Oom, float] = {"either": 1.0, "shared": 1.0, "own": 10.0}
"""Between the count and the end of the process, which gives back what it has held first; where others are counted too
a longer time would take their ends for it."""
MOST_COUNTERS = 64


class MemorySeen(Struct, frozen=True, kw_only=True):
    """While it ran."""

    kills: int | None = None
    """Processes that the kernel ended in cgroups of the job, whoever they were; None: not told."""
    of_command: Oom = ""
    """Of the command itself, should SIGKILL have ended it."""
    own_seconds: float | None = None
    """After the start, when it last ended one in a cgroup in which only the job is."""


class _Counter(Struct):
    before: int
    """When it was first seen."""
    now: int
    risen_at: float = float("-inf")
    risen_by: int = 0
    shared: bool = False
    strangers: Counter[int] = msgspec.field(default_factory=Counter)
    """Who else was in it at the last look; of a PID namespace that is not seen, how many."""
    gone: int = 0
    gone_at: float = float("-inf")
    """How many of them the last look missed at which some were gone, and when that was."""


class OomCounters:
    """Of one job. A thread asks about deaths while another looks."""

    def __init__(self, system: System = processes.THIS) -> None:
        self._system = system
        self._lock = threading.Lock()
        self._counters: dict[str, _Counter] = {}
        self._place_of: dict[int, str] = {}
        self._places: dict[str, str] = {}
        """By what /proc/PID/cgroup says."""
        self._own = {os.getpid(), *processes.ancestors(os.getpid(), system)}

    def join(self, pid: int) -> None:
        """A process of the job, as it is now: it may be moved into another cgroup, and be told of again. One that exits
        is told to be in the root of v1, until it is waited for: where it died is where it was."""
        told = self._system.text_or_empty(f"/proc/{pid}/cgroup")
        process = processes.look(pid, self._system)
        if process is None or process.is_exiting:
            return
        if told not in self._places:
            self._places[told] = oom_place(self._system, told) if told and len(self._places) < MOST_COUNTERS else ""
        if not (place := self._places[told]):
            return
        with self._lock:
            self._place_of[pid] = place
            if place not in self._counters and (kills := oom_kills_in(self._system, place)) is not None:
                self._counters[place] = _Counter(kills, kills)

    def look(self, ours: Collection[int]) -> None:
        """Called now and then, with the processes of the job."""
        with self._lock:
            for place, counter in self._counters.items():
                self._has_risen(place)
                before, counter.strangers = counter.strangers, Counter(self._others(place, ours, counter.strangers))
                if gone := (before - counter.strangers).total():
                    counter.gone, counter.gone_at = gone, time.monotonic()
                counter.shared = counter.shared or bool(counter.strangers)

    def at_death(self, pid: int) -> Oom:
        """Whether the counter of its cgroup has risen as it died."""
        with self._lock:
            place = self._place_of.get(pid, "")
            counter = self._counters.get(place)
            if counter is None:
                return ""
            self._has_risen(place)
            oom: Oom = "shared" if counter.shared else "own"
            if oom == "shared" and counter.risen_at > 0:
                gone = (counter.strangers - Counter(pids_counted_in(self._system, place))).total()
                if time.monotonic() - counter.gone_at <= AT_ONCE[oom]:
                    gone += counter.gone
                oom = "either" if gone >= counter.risen_by else "shared"
            return oom if time.monotonic() - counter.risen_at <= AT_ONCE[oom] else ""

    @property
    def kills(self) -> int | None:
        """By all of them since the job was first seen there, whoever it was; None: not told."""
        with self._lock:
            return sum(counter.now - counter.before for counter in self._counters.values()) if self._counters else None

    @property
    def own_rise(self) -> float | None:
        """When the last process was ended of a cgroup in which only the job is, on the clock of time.monotonic."""
        with self._lock:
            rises = [counter.risen_at for counter in self._counters.values() if not counter.shared]
        return max((rise for rise in rises if rise > 0), default=None)

    def _has_risen(self, place: str) -> bool:
        counter, kills = self._counters[place], oom_kills_in(self._system, place)
        if kills is None or kills <= counter.now:
            return False
        counter.risen_by = kills - counter.now
        counter.now, counter.risen_at = kills, time.monotonic()
        return True

    def _others(self, place: str, ours: Collection[int], known: Collection[int]) -> Iterator[int]:
        """Processes in it that are neither the job's nor the doctor's, nor have started the doctor. `known`: such as
        were told of before."""
        me = os.getpid()
        for pid in pids_counted_in(self._system, place):
            if pid in ours or pid in self._own:
                continue
            if pid in known:
                yield pid
                continue
            process = processes.look(pid, self._system) if pid else None
            if not pid or (process is not None and me not in processes.ancestors(pid, self._system)):
                yield pid
