"""What is concluded of a job, and what `gpudoctor hang --json` says."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec import Struct, field

from gpudoctor.cause import Judged
from gpudoctor.check import Fix
from gpudoctor.envelope import NOT_SEEN, Answer, Seen as Seen, Stated, subject
from gpudoctor.fleet.fleet import lost_id
from gpudoctor.fleet.names import folded
from gpudoctor.snapshot.evidence import Frame, Unread
from gpudoctor.sure import PRIMARY

State = Literal["hung", "slow", "running", "starting", "ended"]
"""hung: nothing that was looked at moves, or what moves cannot help. slow: it gets on, and something holds it up.
running: it gets on. starting: its ranks are not all there yet, and nothing is wrong so far. ended: no rank is left."""


class ProgramLine(Struct, frozen=True):
    """A place in the user's program."""

    file: str
    line: int
    function: str = ""
    text: str = ""
    """The line itself, string constants blanked; empty where its file was not read."""


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
    container: str = ""
    """ "docker 3f2a91c0d7e4": where the process is, seen from outside."""
    state: str
    """In words: "waits in all_reduce", "sleeps in user code", "stopped", "missing", "ended by SIGKILL"."""
    collective: str = ""
    """ "all_reduce #12 float32[1024] in group 0", from the recorder, else from the stack; empty when in none."""
    frame: ProgramLine | None = None
    """The innermost frame of the user's program."""


class RankStack(Struct, frozen=True, kw_only=True):
    """A stack, and the ranks whose main thread had it."""

    ranks: tuple[int, ...]
    frames: tuple[Frame, ...]
    """Innermost first."""


class CourseColumn(Struct, frozen=True, kw_only=True):
    """A collective of a group."""

    sequence: int
    operation: str = ""
    """Empty where no recorder holds it any more."""
    words: str = ""
    """ "all_reduce #12 float32[1024] in group default_pg", as the first that came to it has called it."""
    seconds: float | None = None
    """After the first of the columns, by the clock of one rank."""
    where: ProgramLine | None = None


class CourseRow(Struct, frozen=True, kw_only=True):
    """Ranks that have the same past."""

    ranks: tuple[int, ...]
    states: str
    """A letter a column. c: completed. s: started, and it waits. q: called, and not begun. d: called, and it is not
    what most have called. .: it has not come. ?: not known, its recorder has lost it."""


class GroupCourse(Struct, frozen=True, kw_only=True):
    """Who came to the last collectives of a process group, as flight recorders tell."""

    group: str
    description: str = ""
    columns: tuple[CourseColumn, ...] = ()
    rows: tuple[CourseRow, ...] = ()
    """The smallest first."""
    more: tuple[int, ...] = ()
    """Ranks of rows beyond the first 64."""
    unread: tuple[int, ...] = ()
    """Ranks of the group whose recorder was not read."""


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
    stacks: tuple[RankStack, ...] = ()
    """At most 64, those of the fewest ranks first."""
    groups: tuple[GroupCourse, ...] = ()
    """At most 8; those in which somebody waits first."""
    only_recorder: str = ""
    """What a flight recorder would have told, when none was readable; empty otherwise."""


def is_unseen(job: JobReport) -> bool:
    """Whether it is not known that the job gets on."""
    return job.state == "running" and bool(job.undecided)


def is_fault(job: JobReport) -> bool:
    return bool(job.causes) or job.state == "hung"


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


class HangReport(Answer, frozen=True, kw_only=True):
    """The answer."""

    command: ClassVar[str] = "hang"
    signs: ClassVar[tuple[str, ...]] = ("hosts", "jobs")
    hosts: tuple[str, ...] = ()
    jobs: tuple[JobReport, ...] = ()
    others: tuple[OtherJob, ...] = ()
    """At most 32."""
    ended: bool = False
    """All jobs that were watched have ended. False with no jobs: none could be looked at, or there was none."""
    lost: dict[str, str] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """1 when a job hangs, something is wrong with it, or one of several nodes cannot be reached; 3 when whether a
        job gets on is not known, or there is none.
        """
        if any(map(is_fault, self.jobs)) or self.lacks_nodes:
            return 1
        if not self.jobs:
            return 0 if self.ended else 3
        return 3 if any(map(is_unseen, self.jobs)) else 0

    @property
    def lacks_nodes(self) -> bool:
        """Whether one of several nodes cannot be reached."""
        return bool(self.lost) and len({*self.hosts, *self.lost}) > 1

    def about(self) -> str:
        return folded(self.hosts)

    def stated(self) -> Iterator[Stated]:
        for job in self.jobs:
            yield from (_stated(job, cause) for cause in job.causes)
            if job.undecided and (job.state == "hung" or not is_unseen(job)):
                yield Stated(
                    id=NOT_SEEN,
                    severity="error" if job.state == "hung" else "info",
                    subject=f"job {job.id}",
                    summary=job.undecided,
                )
        for node, why in self.lost.items():
            yield Stated(
                id=lost_id(why),
                severity="error" if self.lacks_nodes else "warning",
                subject=subject(nodes=(node,)),
                summary=f"{node}: {why}",
            )


def _stated(job: JobReport, cause: HangCause) -> Stated:
    """One that fits less than others is no error of its own: the job that waits is."""
    from gpudoctor.causes import CAUSES  # takes time, and only an answer as JSON needs it

    judged = CAUSES[cause.cause].judge() if cause.cause in CAUSES else Judged()
    return Stated(
        id=cause.cause,
        severity="info" if cause.confidence < PRIMARY else "warning" if job.state == "slow" else "error",
        subject=subject(ranks=cause.ranks) or f"job {job.id}",
        summary=cause.summary,
        meaning=cause.meaning or None,
        fix=cause.fix,
        evidence=cause.evidence,
        certainty=cause.confidence,
        kind=judged.kind,
        blame=judged.blame,
        restart=judged.restart,
    )
