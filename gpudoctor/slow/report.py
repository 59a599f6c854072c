"""What is concluded of a job's pace, and what `gpudoctor slow --json` says."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec import Struct, field

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.envelope import Answer, Seen, Stated, subject
from gpudoctor.fleet.fleet import lost_id
from gpudoctor.hang.report import ProgramLine
from gpudoctor.slow.lateness import GroupPace
from gpudoctor.snapshot.evidence import Unread

CAUSE = "straggler"
Verdict = Literal["slow", "even", "unknown"]
"""slow: ranks are named. even: no rank is later than the others, and that was seen. unknown: it could not be told."""


class SlowRanks(Struct, frozen=True, kw_only=True):
    """Ranks that are late together, and where they spend it."""

    ranks: tuple[int, ...]
    hosts: tuple[str, ...] = ()
    lost_seconds: float
    """Of each step, that all others wait."""
    step_seconds: float
    lateness: dict[int, float]
    phase: str = ""
    """ "input", "forward", "backward", "optimizer", "storage", "GPU", "compile", "host code"; empty: not told."""
    where: ProgramLine | None = None
    why: str = ""
    """Which fix of the cause: "no-workers", "few-workers", "cpu-quota", "cpu-shared", "storage", "gpu", "host-code"."""
    summary: str
    evidence: tuple[Seen, ...] = ()
    fix: Fix
    certainty: float


class RankMemory(Struct, frozen=True, kw_only=True):
    """The most that a rank has had."""

    rank: int
    peak_bytes: int = 0
    limit_bytes: int | None = None
    gpu_bytes: int | None = None
    """Of its GPU, in use by all."""
    gpu_total_bytes: int | None = None


class JobPace(Struct, frozen=True, kw_only=True):
    """One job."""

    id: str
    user: str = ""
    world_size: int = 0
    verdict: Verdict
    unknown: str = ""
    """What could not be told, as a phrase: why; empty where nothing is missing."""
    slow: tuple[SlowRanks, ...] = ()
    groups: tuple[GroupPace, ...] = ()
    memory: tuple[RankMemory, ...] = ()
    notes: tuple[str, ...] = ()
    samples_seconds: float = 0.0
    """For how long stacks were looked at; 0: nobody was late, and none was."""


class SlowReport(Answer, frozen=True, kw_only=True):
    """The answer."""

    command: ClassVar[str] = "slow"
    signs: ClassVar[tuple[str, ...]] = ("hosts", "paces")
    hosts: tuple[str, ...] = ()
    paces: tuple[JobPace, ...] = ()
    lost: dict[str, str] = field(default_factory=dict)
    unread: tuple[Unread, ...] = ()
    seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """1 where a rank is named, or one of several nodes cannot be reached; 3 where it could not be told."""
        if any(pace.slow for pace in self.paces) or (len(self.hosts) > 1 and self.lost):
            return 1
        return 3 if not self.paces or any(pace.verdict == "unknown" for pace in self.paces) else 0

    def about(self) -> str | None:
        return "; ".join(pace.id for pace in self.paces) or None

    def stated(self) -> Iterator[Stated]:
        """What is slow, the worst first; then what could not be seen."""
        for pace in self.paces:
            for slow in pace.slow:
                judged = CAUSES[CAUSE].judge(slow.why)
                yield Stated(
                    id=CAUSE,
                    severity="error",
                    subject=subject(nodes=slow.hosts, ranks=slow.ranks),
                    summary=slow.summary,
                    meaning=CAUSES[CAUSE].meaning,
                    fix=slow.fix,
                    evidence=slow.evidence,
                    certainty=slow.certainty,
                    kind=judged.kind,
                    blame=judged.blame,
                    restart=judged.restart,
                )
        for name, why in self.lost.items():
            kind, _, detail = why.partition(": ")
            yield Stated(
                id=lost_id(kind),
                severity="error" if len(self.hosts) > 1 else "warning",
                subject=subject(nodes=(name,)),
                summary=f"{name} could not be looked at: {detail or kind}",
            )
