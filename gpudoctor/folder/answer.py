"""What `gpudoctor report --json` says: a run as it went, and every answer that lies in the folder."""

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gpudoctor.cause import Restart
from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.envelope import NOT_SEEN, Answer, Seen, Stated
from gpudoctor.explain.report import Explanation
from gpudoctor.fleet.survey import Survey
from gpudoctor.hang.report import HangReport
from gpudoctor.nccl.result import TestResult
from gpudoctor.report import Report
from gpudoctor.train.report import TrainReport

MomentKind = Literal["start", "end", "signal", "stall", "silence", "slow", "log"]
"""stall: `hang` has looked, and says that it stands. silence: nothing was said. slow: fewer steps than usual, or a
rank that all others wait for."""


class KeptNode(Struct, frozen=True, kw_only=True):
    """What another node of the job has sent of its part."""

    host: str
    started: float = 0.0
    """Seconds since 1970, by its own clock."""
    seconds: float | None = None
    status: int | None = None


class KeptRun(Struct, frozen=True, kw_only=True):
    """What run.json tells."""

    command: tuple[str, ...] = ()
    folder: str = ""
    host: str = ""
    started: float = 0.0
    """Seconds since 1970."""
    seconds: float | None = None
    """None: it has not ended, or whoever attended it was killed before."""
    status: int | None = None
    """Its exit status; below 0 the signal that ended it."""
    lost: tuple[str, ...] = ()
    """What could not be kept, and why."""
    told: tuple[str, ...] = ()
    """What was said at its end, line by line."""
    cause: str | None = None
    """An id of `gpudoctor about`, where one was decided."""
    confidence: float | None = None
    variant: str | None = None
    """Of its fix, where what was seen while it ran told the cause; None: the logs did."""
    restart: Restart = "not decided"
    exclude: tuple[str, ...] = ()
    """Nodes to leave out."""
    nodes: tuple[KeptNode, ...] = ()
    """Besides the one that keeps this report."""


class TimelineMoment(Struct, frozen=True, kw_only=True):
    """Something that happened."""

    kind: MomentKind
    text: str
    seconds: float | None = None
    """After the start; None where that is not known."""
    until: float | None = None
    """Of what took time."""
    source: str = ""
    """ "output.log:4711", "hang-1-evidence.json"."""


class UseOverTime(Struct, frozen=True, kw_only=True):
    """What was used, by time."""

    name: str
    """ "GPU 3", "processors", "memory"."""
    unit: Literal["%", "bytes", "cores", "watts"]
    points: tuple[tuple[float, float], ...] = ()
    """(seconds after the start, value)."""


class StepsOverTime(Struct, frozen=True, kw_only=True):
    """The number of its step that a rank has told, by time."""

    rank: int | None = None
    """None: the log does not tell ranks apart."""
    points: tuple[tuple[float, float], ...] = ()
    """(seconds after the start, step)."""


class FolderFile(Struct, frozen=True, kw_only=True):
    """A file of the folder: what it is, and what it says in a line."""

    name: str
    kind: str
    words: str = ""


class FolderAnswer(Answer, frozen=True, kw_only=True):
    command: ClassVar[str] = "report"
    signs: ClassVar[tuple[str, ...]] = ("moments", "files")
    folder: str = ""
    run: KeptRun | None = None
    moments: tuple[TimelineMoment, ...] = ()
    """In order; those of which the time is not known last."""
    clock: str = ""
    """What the seconds count from."""
    use: tuple[UseOverTime, ...] = ()
    steps: tuple[StepsOverTime, ...] = ()
    explanation: Explanation | None = None
    """What the logs say."""
    hangs: dict[str, HangReport] = field(default_factory=dict)
    """By file, in the order of their names."""
    machines: dict[str, Report] = field(default_factory=dict)
    surveys: dict[str, Survey] = field(default_factory=dict)
    tests: dict[str, TestResult] = field(default_factory=dict)
    trainings: dict[str, TrainReport] = field(default_factory=dict)
    files: tuple[FolderFile, ...] = ()
    hosts: tuple[str, ...] = ()
    """Names of machines that the files tell."""

    @property
    def parts(self) -> Iterator[tuple[str, Answer]]:
        """Every answer with the file that it is of; the logs' first."""
        if self.explanation is not None:
            yield "logs", self.explanation
        for group in (self.hangs, self.machines, self.surveys, self.tests, self.trainings):
            yield from group.items()

    @property
    def ended_well(self) -> bool | None:
        """Of a run; None where there is none, or its end is not known."""
        run = self.run
        return None if run is None or run.status is None else run.status == 0 and run.cause is None

    @property
    def exit_status(self) -> int:
        """1 the run has failed, or an answer tells a fault; 0 the run has ended well, or nothing is wrong in what was
        seen; 3 cannot tell."""
        if self.ended_well is not None:
            return int(not self.ended_well)
        statuses = [part.exit_status for _, part in self.parts]
        return 1 if 1 in statuses else 3 if self.run is not None or 0 not in statuses else max(statuses)

    def about(self) -> str:
        return self.run.host if self.run is not None and self.run.host else ", ".join(self.hosts[:4])

    def stated(self) -> Iterator[Stated]:
        """The cause of the run's end first; what a run that has ended well leaves is no error of it."""
        own = self.own_cause()
        if own is not None:
            yield own
        for name, part in self.parts:
            for each in part.stated():
                if own is not None and each.id == own.id:
                    continue
                about = f"{name}: {each.subject}" if each.subject else name
                is_error = each.severity == "error" and not self.ended_well and own is None
                yield replace(each, subject=about, severity=each.severity if is_error else _milder(each))

    def own_cause(self) -> Stated | None:
        """Of a run that has failed: its cause as it was told then; of a failure without one, that it was not seen."""
        run = self.run
        if run is None or self.ended_well is not False:
            return None
        if run.cause is None:
            return Stated(
                id=NOT_SEEN, severity="error", summary=f"the run has failed ({ending(run)}); why was not seen"
            )
        explained = self.explanation.stated() if self.explanation is not None else ()
        same = next((stated for stated in explained if stated.id == run.cause), None)
        cause = next((line.removeprefix("cause: ") for line in run.told if line.startswith("cause: ")), run.cause)
        if same is not None and run.variant is None and not run.nodes:
            return same
        words = next((line.removeprefix("fix: ") for line in run.told if line.startswith("fix: ")), "")
        fix = Fix(words) if words else None
        known = CAUSES.get(run.cause)
        if known is not None and run.variant in ("", *known.variants):
            fix = known.remedy(run.variant, who="that rank")
        evidence = same.evidence if same is not None else tuple(Seen("found.json", line) for line in run.told)
        return Stated(
            id=run.cause,
            severity="error",
            summary=_without_numbers(cause),
            fix=fix or (same.fix if same is not None else None),
            evidence=evidence,
            certainty=run.confidence,
            restart=run.restart,
        )


def _without_numbers(cause: str) -> str:
    """ "rank 1 (process 10 on n2) was killed by SIGKILL (0.85 of 1)  [rank-died]" without what stands at its end."""
    return re.sub(r"(?: \([\d.]+ of 1\))?(?:\s+\[[\w-]+\])?$", "", cause)


def _milder(stated: Stated) -> Literal["error", "warning", "info"]:
    return "warning" if stated.severity == "error" else stated.severity


def ending(run: KeptRun | KeptNode) -> str:
    """ "exit status 1", "SIGKILL"."""
    from gpudoctor.active import signal_name

    status = run.status or 0
    return signal_name(-status) if status < 0 else f"exit status {status}"
