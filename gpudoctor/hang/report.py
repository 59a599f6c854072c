"""What is concluded of a job, and what `gpudoctor hang --json` says."""

from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from gpudoctor.check import Fix
from gpudoctor.snapshot.evidence import Unread

State = Literal["hung", "slow", "running", "starting", "ended"]
"""hung: nothing that was looked at moves, or what moves cannot help. slow: it gets on, and something holds it up.
running: it gets on. starting: its ranks are not all there yet, and nothing is wrong so far. ended: no rank is left."""


class Seen(Struct, frozen=True):
    """A line of evidence."""

    source: str
    """ "rank 3 pid 4711 stack", "node b /proc/net/tcp", "flight recorder of ranks 0-6"."""
    text: str


class ProgramLine(Struct, frozen=True):
    """A place in the user's program."""

    file: str
    line: int
    function: str = ""


class HangCause(Struct, frozen=True, kw_only=True):
    """A cause (`causes.CAUSES`) as it shows itself in one job."""

    cause: str
    """Its id."""
    confidence: float
    """Of `sure.py`'s scale. 0.9 and above: shown by what was read. Below 0.5: one of several that fit."""
    ranks: tuple[int, ...] = ()
    """The culprits, not those that wait for them."""
    where: ProgramLine | None = None
    evidence: tuple[Seen, ...] = ()
    summary: str
    """One line with ranks, places, numbers; no final period."""
    meaning: str = ""
    """What it does to the job, as sentences."""
    fix: Fix
    confirm: str = ""
    """The test that decides, when `confidence` is below 0.9; as sentences."""


class RankRow(Struct, frozen=True, kw_only=True):
    """A rank in one line."""

    rank: int
    host: str = ""
    pid: int = 0
    state: str
    """In words: "waits in all_reduce", "sleeps in user code", "stopped", "missing", "ended by SIGKILL"."""
    collective: str = ""
    """ "all_reduce #12 float32[1024] in group 0", from the recorder, else from the stack; empty when in none."""
    frame: ProgramLine | None = None
    """The innermost frame of the user's program."""


class JobReport(Struct, frozen=True, kw_only=True):
    id: str
    """ "torchrun none at 10.0.0.1:29500", "slurm 4711.0": what tells it from other jobs of its user here."""
    user: str = ""
    """Whose it is: a name, or "uid 1234"; empty where that is not known."""
    world_size: int
    """As most ranks were told; 0 when none was."""
    state: State
    causes: tuple[HangCause, ...] = ()
    """Best first; () when nothing is wrong or nothing could be decided."""
    undecided: str = ""
    """Why there is no primary cause, and which test decides; empty when there is one or none is needed."""
    ranks: tuple[RankRow, ...] = ()
    only_recorder: str = ""
    """What a flight recorder would have told, when none was readable; empty otherwise."""


def is_unseen(job: JobReport) -> bool:
    """Whether it is not known that the job gets on."""
    return job.state == "running" and bool(job.undecided)


class OtherJob(Struct, frozen=True, kw_only=True):
    """A job that was seen and not looked at: another user's, or one that was not asked for."""

    id: str
    user: str
    ranks: int = 0
    pid: int = 0
    """Of its launcher, or of its first rank."""
    claims: str = ""
    """The id of a job in this report, of another user, whose master or Slurm job these processes name as theirs. They
    are no part of it."""


class HangReport(Struct, frozen=True, kw_only=True):
    gpudoctor: str = ""
    hosts: tuple[str, ...] = ()
    jobs: tuple[JobReport, ...] = ()
    others: tuple[OtherJob, ...] = ()
    """At most 32."""
    ended: bool = False
    """All jobs that were watched have ended. False with no jobs: none could be looked at, or there was none."""
    lost: dict[str, str] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    seconds: float = 0.0


def to_json(report: HangReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `gpudoctor hang --json`."""
    return msgspec.json.schema(HangReport)
