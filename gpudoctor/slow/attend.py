"""`gpudoctor run` looks at the pace of its job now and then: who is late is said once, and at the end how it went.

A look takes about a second of one processor, in a child: it is asked seldom, and seldomer the longer a job runs.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from gpudoctor import active
from gpudoctor.fleet.meet_at import MeetAt

FIRST_SECONDS = 30.0
LONGER, MOST_SECONDS = 4.0, 900.0
"""Times as long is it to the next look, up to this: 30 s, 2.5 min, 10.5 min, then each quarter of an hour."""
LOOK_SECONDS = 150.0
"""Most that a look takes, of which a minute are samples where somebody is late."""
BETWEEN_SECONDS = 1.0
LOOKS_WITHOUT = 2
"""That found no job of torch's, after which none follows."""
LOOKS_AGAIN = 2
"""After FIRST_SECONDS, where a look has not met all ranks: one may have been in a moment that hides its number."""


class PaceTold(Struct, frozen=True, kw_only=True):
    """What a look found."""

    is_job: bool = False
    is_whole: bool = True
    """All of its ranks have told their times."""
    slow: tuple[str, ...] = ()
    """To be said now; empty: nobody is slow."""
    ranks: tuple[int, ...] = ()
    at_the_end: tuple[str, ...] = ()


class PaceTask(Struct, frozen=True, kw_only=True):
    """For the child that looks."""

    pid: int
    folder: str = ""
    name: str = ""
    meet: MeetAt | None = None
    """Where agents of all nodes of the job come to this look."""


class PaceWatch:
    """Of one job: called often, acts seldom."""

    def __init__(
        self,
        pid: int,
        folder: Path | None,
        say: Callable[[Sequence[str]], None],
        invited: Callable[[], tuple[MeetAt | None, Mapping[str, str] | None]] = lambda: (None, None),
        is_looked_at: Callable[[], bool] = lambda: False,
        has_begun: Callable[[], bool] = lambda: True,
    ) -> None:
        """`invited`: have agents of other nodes come to a look; `is_looked_at`: another node does; `has_begun`: ranks
        have come to collectives, as far as they tell: a look before finds nothing, and the next one comes late."""
        self._invited, self._is_looked_at = invited, is_looked_at
        self._pid, self._folder, self._say = pid, folder, say
        self._next = 0.0
        self._has_begun, self._waits_until = has_begun, time.monotonic() + FIRST_SECONDS * LONGER
        self._pause = FIRST_SECONDS
        self._look_at = time.monotonic() + self._pause
        self._child: active.Child | None = None
        self._looks = 0
        self._without = self._again = 0
        self._said: set[tuple[int, ...]] = set()
        self._last = PaceTold()

    def look(self) -> None:
        """Called several times a second."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + BETWEEN_SECONDS
        if self._waits_until and (self._has_begun() or now >= self._waits_until):
            self._waits_until, self._look_at = 0.0, now + FIRST_SECONDS
        if self._waits_until:
            return
        if self._child is not None and self._child.is_over():
            self.hear(self._child.end().output)
            self._child = None
        if self._child is None and now >= self._look_at and self._without < LOOKS_WITHOUT and not self._is_looked_at():
            self._ask(now)

    def _ask(self, now: float) -> None:
        self._pause = min(MOST_SECONDS, self._pause * LONGER)
        self._look_at = now + self._pause
        self._looks += 1
        meet, environment = self._invited()
        task = PaceTask(pid=self._pid, folder=str(self._folder or ""), name=f"slow-{self._looks}.json", meet=meet)
        command = active.own_module("gpudoctor.slow.attended", msgspec.json.encode(task).decode())
        try:
            self._child = active.start("slow", command, timeout=LOOK_SECONDS, environment=environment)
        except OSError:  # too little memory, too many processes
            self._child = None

    def hear(self, answer: bytes) -> None:
        """What the child has found."""
        try:
            pace_told = msgspec.json.decode(answer, type=PaceTold)
        except msgspec.DecodeError:
            return
        self._without = 0 if pace_told.is_job else self._without + 1
        if pace_told.is_job:
            self._last = pace_told
        if pace_told.is_job and not pace_told.is_whole and self._again < LOOKS_AGAIN:
            self._again += 1
            self._pause /= LONGER
            self._look_at = min(self._look_at, time.monotonic() + FIRST_SECONDS)
        if pace_told.slow and pace_told.ranks not in self._said:
            self._said.add(pace_told.ranks)
            self._say(pace_told.slow)

    def end(self) -> tuple[str, ...]:
        """The command has ended: what is to be said of how it went."""
        if self._child is not None:
            self._child.end()
            self._child = None
        return self._last.at_the_end
