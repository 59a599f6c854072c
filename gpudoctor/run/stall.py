"""When a job has not got on for long, `hang` looks at it; whether it stands still is for `hang` to say.

What gets on is told by the collectives that its armed ranks begin, once they have begun some: what it prints does not
count then, for a progress bar moves while a job hangs, and many jobs print nothing for an hour. Else it is the output.
Neither is a stall by itself: it is only a reason to look, which stops nobody and costs seconds of one processor. A job
that gets on all the same (a long checkpoint, a validation, a compilation) is asked again after a longer time, and what
its own pauses were so far is the measure.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from gpudoctor import active
from gpudoctor.fleet.meet_at import MeetAt
from gpudoctor.read import process as processes
from gpudoctor.run.alone import Alone
from gpudoctor.run.channels import Outlet
from gpudoctor.run.news import News
from gpudoctor.run.use import KEPT

SILENT_SECONDS = 120.0
"""After which we look, where nothing is said: shorter than the time-outs of NCCL (600 s) and gloo (1800 s)."""
LONGER = 3.0
"""Times its longest silence so far."""
BETWEEN_SECONDS = 1.0
LOOK_SECONDS = 150.0
"""Most that a look takes."""
MOST_LOOKS = 50
LOOKS_TO_KILL = 2
LOOKS_TO_WONDER = 3
"""Without a step in between, from which it is said what holds up a job that may get on: a computation without end looks
like a long one. Of who only sleeps and tries again it is said at once."""
CONFIRM_SECONDS = 30.0
"""From the first of these to the second."""
GRACE_SECONDS = 60.0
"""Between SIGTERM and SIGKILL: torchrun gives its ranks 30 s."""
OnStall = Literal["report", "dump", "kill", "restart-hint"]


class StallTold(Struct, frozen=True, kw_only=True):
    """What a look found."""

    hung: bool = False
    lines: tuple[str, ...] = ()
    """To be said; where it does not hang, of what holds it up, should that go on."""
    cause: str = ""
    """Its id; "undecided" where it stands still and none is decided."""
    confidence: float = 0.0
    is_idle: bool = False
    """Who holds up a job that may get on does nothing, as far as this machine is asked: it sleeps and tries again."""


def in_steps(steps: tuple[int, int] | None) -> str:
    """ " in step 12", " in steps 12 to 13"; empty where none is told."""
    if steps is None:
        return ""
    least, most = steps
    return f" in step {most}" if least == most else f" in steps {least} to {most}"


class StallTask(Struct, frozen=True, kw_only=True):
    """For the child that looks."""

    pid: int
    folder: str = ""
    name: str = ""
    on_stall: OnStall = "report"
    quiet: float | None = None
    """For so many seconds no rank has begun a collective; None where none tells."""
    meet: MeetAt | None = None
    """Where agents of all nodes of the job come to this look."""


class StallWatch:
    """Of one job: called often, acts seldom."""

    def __init__(
        self,
        pid: int,
        folder: Path | None,
        outlets: Sequence[Outlet],
        seconds: float | None,
        on_stall: OnStall,
        say: Callable[[Sequence[str]], None],
        collectives: Callable[[], tuple[int, ...]] = lambda: (),
        together: Alone | None = None,
        steps: Callable[[], tuple[int, int] | None] = lambda: None,
    ) -> None:
        """`collectives`: how many each rank has begun; () where none tells. `together`: with other nodes. `steps`: the
        least and the most that its ranks say they are in."""
        self._steps = steps
        self._together = together or Alone()
        self._pid, self._folder, self._say, self._collectives = pid, folder, say, collectives
        self._counts: tuple[int, ...] = ()
        files = [Path(f"/proc/self/fd/{outlet.outputs[0]}") for outlet in outlets if outlet.kind == "file"]
        kept = [folder / name for name in KEPT] if folder is not None else []
        self._news = News([*files, *kept]) if files or kept else None
        self._on_stall: OnStall = on_stall
        self._kills = on_stall == "kill"
        self._hung = 0
        """Looks, one after the other, that found it so."""
        self._held = 0
        """Those that found that it may get on."""
        self._wondered = False
        self._kill_at = 0.0
        self._is_fixed = seconds is not None
        self._patience = SILENT_SECONDS if seconds is None else seconds
        self._next = 0.0
        self._said = self._amount()
        self._asked_at = self._said
        self._since = time.monotonic()
        self._look_at = self._since + self._patience
        self._child: active.Child | None = None
        self._last = StallTold()
        self._looks = 0
        self._told = ""

    def look(self) -> None:
        """Called several times a second."""
        if self._child is not None and self._child.is_over():
            self._heard(self._child.end())
            self._child = None
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + BETWEEN_SECONDS
        if self._kill_at and now >= self._kill_at:
            self._kill_at = now + GRACE_SECONDS
            processes.end(processes.descendants(self._pid), patience=0.0)
            self._tell(signal.SIGKILL)
        amount = self._amount()
        if not amount:  # nothing tells whether it gets on
            return
        if amount != self._said:
            silence, self._said, self._since = now - self._since, amount, now
            if not self._is_fixed:
                self._patience = max(self._patience, LONGER * silence)
            self._look_at = now + self._patience
            self._hung = self._held = 0
            self._told, self._wondered = "", False
        elif now >= self._look_at and self._child is None and self._looks < MOST_LOOKS and not self._is_looked_at:
            self._ask()

    @property
    def stood(self) -> StallTold:
        """What a look has found, where it stands still, or has said something for the last minute only: last words."""
        return self._last if self._hung or time.monotonic() - self._since < GRACE_SECONDS else StallTold()

    @property
    def _is_looked_at(self) -> bool:
        """Another node looks at all of them."""
        return self._together.has_head

    def _tell(self, number: int) -> None:
        self._together.stop_all(number)
        with contextlib.suppress(OSError):
            os.kill(self._pid, number)

    def end(self) -> None:
        """The command has ended."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _amount(self) -> tuple[int, ...]:
        """What changes as the job gets on: collectives begun, where that is told; else how much that is new has been
        said; () where nothing tells."""
        self._counts = self._collectives()
        return self._counts if any(self._counts) else (self._news.count(),) if self._news is not None else ()

    def _ask(self) -> None:
        self._looks += 1
        self._asked_at = self._said
        meet, environment = self._together.invited()
        name = f"hang-{self._looks}"
        quiet = time.monotonic() - self._since if self._said == self._counts else None
        task = StallTask(
            pid=self._pid, folder=str(self._folder or ""), name=name, on_stall=self._on_stall, quiet=quiet, meet=meet
        )
        command = active.own_module("gpudoctor.run.stalled", msgspec.json.encode(task).decode())
        try:
            self._child = active.start("hang", command, timeout=LOOK_SECONDS, environment=environment)
        except OSError:  # too little memory, too many processes
            self._look_at = time.monotonic() + LONGER * self._patience

    def _heard(self, reply: active.ChildReply) -> None:
        now = time.monotonic()
        self._look_at = now + max(self._patience, now - self._since)  # each time after twice the silence
        if self._amount() != self._asked_at:
            return  # it has spoken meanwhile
        try:
            stall_told = msgspec.json.decode(reply.output, type=StallTold)
        except msgspec.DecodeError:
            return
        self._hung = self._hung + 1 if stall_told.hung else 0
        self._held += not stall_told.hung
        if self._kills and self._hung:
            self._look_at = now + min(self._patience, CONFIRM_SECONDS)
        if self._kills and self._hung >= LOOKS_TO_KILL and not self._kill_at:
            self._say(("it still stands still: it is asked to end by SIGTERM (--on-stall kill)",))
            self._kill_at = now + GRACE_SECONDS
            self._tell(signal.SIGTERM)
        if stall_told.hung and stall_told.cause != self._told:
            self._told = stall_told.cause
            self._last = stall_told
            self._say_silence(now, "and stands still", stall_told.lines)
        elif not (stall_told.hung or self._told or self._wondered or not stall_told.lines) and (
            stall_told.is_idle or self._held >= LOOKS_TO_WONDER
        ):
            self._wondered = True
            self._say_silence(now, "and may get on", stall_told.lines)

    def _say_silence(self, now: float, how: str, lines: Sequence[str]) -> None:
        what = "begun no collective" if self._said == self._counts else "said nothing new"
        self._say((f"it has {what} for {now - self._since:.0f} s{in_steps(self._steps())}, {how}", *lines))
        self._said = self._amount()  # our own words may stand in its file now
