"""Whether a job gets on, by the collectives that its armed ranks have begun: a few bytes of each, read now and then.

A progress bar that is drawn by a thread moves while the job hangs, and a job may print nothing for an hour and train.
Ranks on other nodes, and ranks that are not armed, do not count here; where none does, `stall` goes by the output.
"""

import time

from gpudoctor.read.job import armed
from gpudoctor.run.family import JobProcesses

FIRST_SECONDS, BETWEEN_SECONDS = 0.25, 3.0
MOST_RANKS = 64
MOST_TRIES = 20
"""So often a process is asked whether it is armed by now."""


class Steps:
    """Of one job."""

    def __init__(self, family: JobProcesses) -> None:
        self._family = family
        self._next, self._pause = 0.0, FIRST_SECONDS
        self._found: dict[int, int] = {}
        self._tried: dict[int, int] = {}
        self._counts: tuple[int, ...] = ()

    def counts(self) -> tuple[int, ...]:
        """Collectives begun, by rank; () where no rank tells. Called often; looks now and then."""
        now = time.monotonic()
        if now >= self._next:
            self._pause = min(2 * self._pause, BETWEEN_SECONDS)
            self._next = now + self._pause
            self._look()
        return self._counts

    def _look(self) -> None:
        for pid in self._family.ranks:
            if pid not in self._found and self._tried.get(pid, 0) < MOST_TRIES and len(self._found) < MOST_RANKS:
                self._tried[pid] = self._tried.get(pid, 0) + 1
                if (place := armed.announcement(pid)) is not None:
                    self._found[pid] = place
        found = ((pid, armed.collectives(pid, place)) for pid, place in self._found.items())
        told = {pid: each for pid, each in found if each is not None}
        self._family.name_ranks({pid: rank for pid, (_, rank) in told.items()})
        self._counts = tuple(begun for begun, _ in told.values())
