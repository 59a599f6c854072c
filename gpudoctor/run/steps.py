"""Whether a job gets on, by the collectives that its armed ranks have begun: a few bytes of each, read now and then.

A progress bar that is drawn by a thread moves while the job hangs, and a job may print nothing for an hour and train.
Ranks on other nodes, and ranks that are not armed, do not count here; where none does, `stall` goes by the output.
"""

import time

from gpudoctor.read.job import announced
from gpudoctor.run.family import JobProcesses
from gpudoctor.run.summary import StepsSeen

FIRST_SECONDS, BETWEEN_SECONDS = 0.25, 3.0
MOST_RANKS = 64
QUICK_TRIES, MOST_TRIES = 60, 300
"""So often a process is asked whether it is armed by now, and in a group."""


class Steps:
    """Of one job."""

    def __init__(self, family: JobProcesses) -> None:
        self._family = family
        self._next, self._pause = 0.0, FIRST_SECONDS
        self._awaited = False
        self._named: set[int] = set()
        self._found: dict[int, int] = {}
        self._tried: dict[int, int] = {}
        self._counts: tuple[int, ...] = ()
        self._first = self._moved = self._longest = 0.0
        self._before = 0
        self._at: list[int] = []

    @property
    def at(self) -> tuple[int, int] | None:
        """The least and the most step of its ranks when they were last asked; None: none tells (`gpudoctor.step`)."""
        return (min(self._at), max(self._at)) if self._at else None

    def counts(self) -> tuple[int, ...]:
        """Collectives begun, by rank; () where no rank tells. Called often; looks now and then."""
        now = time.monotonic()
        if now >= self._next:
            self._pause = FIRST_SECONDS if self._awaited else min(2 * self._pause, BETWEEN_SECONDS)
            self._next = now + self._pause
            self._look()
        return self._counts

    def _look(self) -> None:
        ranks = self._family.ranks
        self._found = {pid: place for pid, place in self._found.items() if pid in ranks and self._is_worth(pid)}
        awaited = [pid for pid in ranks if pid not in self._named]
        for pid in awaited:
            self._tried[pid] = self._tried.get(pid, 0) + 1
            if pid in self._found or not self._is_worth(pid) or len(self._found) >= MOST_RANKS:
                continue
            if (place := announced.announcement(pid)) is not None:
                self._found[pid] = place
        self._awaited = any(self._tried[pid] < QUICK_TRIES for pid in awaited)
        answers = ((pid, announced.progress(pid, place)) for pid, place in self._found.items())
        by_pid = {pid: progress for pid, progress in answers if progress is not None}
        self._named |= by_pid.keys()
        self._family.name_ranks({pid: own.rank for pid, own in by_pid.items() if own.rank is not None})
        self._at = [own.step for own in by_pid.values() if own.step is not None] or self._at
        # Each announcement once: what a rank forks holds it too, and that one is seen for the first time is no step.
        by_file = {announced.file_of(pid, self._found[pid]): own for pid, own in by_pid.items()}
        counts = tuple(own.begun for own in by_file.values() if own.rank is not None)
        now = time.monotonic()
        if counts and counts != self._counts:
            if not self._first:
                self._first, self._before = now, max(counts)
            self._longest = max(self._longest, now - (self._moved or now))
            self._moved = now
        self._counts = counts or self._counts

    def _is_worth(self, pid: int) -> bool:
        """It is in a group, or may still come into one: a data loader's worker never does."""
        return pid in self._named or self._tried.get(pid, 0) <= MOST_TRIES

    def seen(self) -> StepsSeen:
        """All that was seen."""
        seconds = self._moved - self._first
        return StepsSeen(counts=self._counts, before=self._before, seconds=seconds, longest_pause=self._longest)
