"""What `gpudoctor explain --json` says."""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct, field

from gpudoctor.cause import Blame, Restart
from gpudoctor.check import Fix
from gpudoctor.envelope import NOT_SEEN, Answer, Seen, Stated, subject
from gpudoctor.explain.course import Course
from gpudoctor.fault_classes import Class
from gpudoctor.knowledge.wording import listed
from gpudoctor.sure import PRIMARY


class Line(Struct, frozen=True):
    """A decisive line of a log."""

    file: str
    line: int
    text: str


class LogCause(Struct, frozen=True, kw_only=True):
    cause: str
    """A name of `causes.CAUSES`."""
    kind: Class = field(name="class", default="other")
    """What kind of fault it is, for programs: one of `fault_classes.CLASSES`."""
    blame: Blame = "program"
    restart: Restart = "not decided"
    """Whether starting the job again helps."""
    nodes: tuple[str, ...] = ()
    """That the lines name as the culprit's."""
    confidence: float
    ranks: tuple[int, ...] = ()
    """The culprits."""
    evidence: tuple[Line, ...] = ()
    summary: str
    meaning: str = ""
    fix: Fix
    confirm: str = ""


class Explanation(Answer, frozen=True, kw_only=True):
    command: ClassVar[str] = "explain"
    signs: ClassVar[tuple[str, ...]] = ("causes", "story")
    causes: tuple[LogCause, ...] = ()
    """Best first; alternatives have a lower confidence."""
    unknown: str | None = None
    """What is wrong and not understood ("torchrun ended with status 1, and no line before it says why"); None where
    nothing of the kind is there."""
    advice: str = ""
    """Where no cause is decided: what solves that by which it ended, or what the lines themselves, or the command above
    them, say is to be done."""
    kind: Class | None = field(name="class", default=None)
    """Of the first cause where it is decided, else of what failed; where the logs show neither that anything failed nor
    that the job gets on, of what their words are like; None where those are of healthy logs, or nothing failed."""
    blame: Blame | None = None
    restart: Restart = "not decided"
    """What a job script may do; "not decided" too where nothing failed."""
    exclude: tuple[str, ...] = ()
    """Nodes to leave out, where `restart` is "elsewhere" and the logs name them."""
    consequences: tuple[Line, ...] = ()
    """Lines that look like a cause, and follow from it."""
    course: Course = "not shown"
    """What the logs' ends show of the job: of several, the worst; "not shown" where none tells."""
    course_words: str = ""
    """Where it stands or is cut off: since when, and where."""
    starts: str = ""
    """Of a log of several starts: whether they ended alike, and whether the job advanced between them."""
    trouble: tuple[Line, ...] = ()
    """Where no cause is decided: lines that look like trouble and that nothing else speaks of, with nothing behind them
    that shows the job getting on."""
    well: bool = False
    """The logs show a job that gets on or has ended well, and nothing wrong."""
    story: tuple[Line, ...] = ()
    """What happened, in order: at most 12 lines."""
    files: tuple[str, ...] = ()
    lines: int = 0
    bytes: int = 0
    ranks: tuple[int, ...] = ()
    """Ranks that the logs speak of."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """File -> why it could not be read, or is no log."""

    @property
    def exit_status(self) -> int:
        """1 something failed; 0 the logs show a job that gets on or has ended well; 3 neither."""
        if self.causes or self.unknown:
            return 1
        return 0 if self.well and not self.unreadable else 3

    def about(self) -> str:
        return listed(self.files)

    def stated(self) -> Iterator[Stated]:
        for number, cause in enumerate(self.causes):
            yield Stated(
                id=cause.cause,
                severity="error" if not number or cause.confidence >= PRIMARY else "info",
                subject=subject(nodes=cause.nodes, ranks=cause.ranks),
                summary=cause.summary,
                meaning=cause.meaning or None,
                fix=cause.fix,
                evidence=tuple(Seen(f"{line.file}:{line.line}", line.text) for line in cause.evidence),
                certainty=cause.confidence,
                kind=cause.kind,
                blame=cause.blame,
                restart=cause.restart,
            )
        if self.unknown:
            yield Stated(
                id=NOT_SEEN,
                severity="error",
                summary=self.unknown,
                fix=Fix(self.advice) if self.advice else None,
                kind=self.kind,
                blame=self.blame,
                restart=self.restart,
            )
