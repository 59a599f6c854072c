"""What `gpudoctor run` is asked for, and what it writes down of a run."""

from pathlib import Path

from msgspec import Struct

from gpudoctor.run.end import AttemptSeen, SignalSeen
from gpudoctor.run.endings import ProcessEnded
from gpudoctor.run.preflight import Preflight
from gpudoctor.run.stall import OnStall


class RunWish(Struct, frozen=True, kw_only=True):
    """What the options say."""

    command: tuple[str, ...]
    report: Path | None = None
    log: bool = True
    quiet: bool = False
    arm: bool = True
    preflight: Preflight = "short"
    stop_on_error: bool = False
    stall: float | None = None
    """Seconds of silence after which it is looked at; 0: never; None: learnt."""
    on_stall: OnStall = "report"


class RunRecord(Struct, frozen=True, kw_only=True):
    """run.json of a report: what was run, and how it ended."""

    command: tuple[str, ...]
    folder: str
    host: str
    pid: int
    started: float
    """Seconds since 1970."""
    seconds: float | None = None
    """None: it has not ended yet, or the doctor was killed before it did."""
    status: int | None = None
    """Its exit status; below 0 the signal that ended it."""
    signals: tuple[SignalSeen, ...] = ()
    """That reached the doctor while it ran."""
    ended: tuple[ProcessEnded, ...] = ()
    """Processes of the job that ended by a signal or with another status than 0, the first first."""
    attempts: tuple[AttemptSeen, ...] = ()
    """That torchrun has made after the first one."""
    steps: tuple[int, int] | None = None
    """The least and the most that its ranks were in when they were last asked (gpudoctor.step)."""
    lost: tuple[str, ...] = ()
    """What could not be kept, and why."""
