"""The answer of `gpudoctor nccl-test`, as published with --json."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from gpudoctor.check import Fix
from gpudoctor.envelope import Answer, Stated, subject
from gpudoctor.fleet.messages import RankState
from gpudoctor.fleet.names import folded
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.rank_messages import Member, Row, Skipped, Trained
from gpudoctor.snapshot.evidence import NodeEvidence


class NodeRanks(Struct, frozen=True, kw_only=True):
    """How a launch ended on one node."""

    node: str
    how: Literal["done", "failed", "stopped", "not started", "lost"]
    ranks: tuple[RankState, ...] = ()
    error: str = ""
    evidence: NodeEvidence | None = None
    """What `gpudoctor hang` would have read there before anything was ended, and the ranks that a signal had ended."""


class RunResult(Struct, frozen=True, kw_only=True):
    """One launch: what was measured, and how it ended (nccl/run.py)."""

    outcome: Literal["complete", "stalled", "died", "interrupted"]
    """stalled: no rank got on for `--timeout` seconds. died: a rank, torchrun, or the way to a node ended."""
    nodes: tuple[str, ...]
    """In the order of node rank."""
    members: tuple[Member, ...] = ()
    rows: tuple[Row, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    trained: tuple[Trained, ...] = ()
    ends: tuple[NodeRanks, ...] = ()
    dropped: int = 0
    """Messages beyond what a launch of its plan has to say (nccl/flood.py)."""
    seconds: float = 0.0


Verdict = Literal["healthy", "degraded", "broken", "misconfigured", "not graded"]


class Grade(Struct, frozen=True, kw_only=True):
    """One collective's verdict, at the largest size that was measured."""

    collective: str
    verdict: Verdict
    link: str
    """The path that limits it, in words: "NVLink 4 through NVSwitch, 8 GPUs", "4 x 400 Gb/s InfiniBand a node"."""
    measured: float
    """Bus bandwidth, GB/s."""
    expected: float | None = None
    """What healthy machines of this kind reach, GB/s; None where nothing is published."""
    source: str = ""
    reason: str = ""
    """Why it is not graded, or what makes it misconfigured."""


class Compared(Struct, frozen=True):
    """One line of --compare: the settings it ran under, and its bus bandwidth at the largest size, by collective."""

    settings: dict[str, str]
    bus_bandwidth: dict[str, float]
    outcome: str = "complete"


class Culprit(Struct, frozen=True, kw_only=True):
    """What --find-slow names."""

    kind: Literal["node", "link", "nic", "unclear"]
    nodes: tuple[str, ...]
    """The node, or the two ends of the link."""
    nic: str = ""
    why: str = ""
    """What was measured, with numbers."""


class IsolationRound(Struct, frozen=True, kw_only=True):
    purpose: str
    """ "each node by itself", "pairs", "regrouped pairs", "suspects with known-good nodes", "NICs of n07"."""
    groups: tuple[tuple[str, ...], ...]
    bus_bandwidth: tuple[float | None, ...]
    """None: the group hung or died."""

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.bus_bandwidth):
            raise ValueError(f"{len(self.groups)} groups with {len(self.bus_bandwidth)} bandwidths")


class Isolation(Struct, frozen=True, kw_only=True):
    rounds: tuple[IsolationRound, ...]
    culprits: tuple[Culprit, ...] = ()
    exclude: tuple[str, ...] = ()
    summary: str = ""


GLOO_ASKED_FOR = "--backend gloo asks for it"
"""In `TestResult.why_backend`."""


class TestResult(Answer, frozen=True, kw_only=True):
    """The whole answer."""

    command: ClassVar[str] = "nccl-test"
    signs: ClassVar[tuple[str, ...]] = ("outcome", "nodes")
    reached_by: str = ""
    """ "local", "ssh", "srun", "join" or "torchrun"."""
    backend: str = ""
    why_backend: str = ""
    rendezvous: str = ""
    """ADDRESS:PORT of the main run."""
    settings: dict[str, str] = field(default_factory=dict)
    """What was set for every rank on top of its node's environment."""
    nodes: tuple[str, ...] = ()
    ranks_per_node: tuple[int, ...] = ()
    world_size: int = 0
    """As the ranks saw it; 0 when none got so far."""
    outcome: Literal["complete", "stalled", "died", "interrupted", "preflight failed", "too few nodes"] = "complete"
    run: RunResult | None = None
    grades: tuple[Grade, ...] = ()
    compared: tuple[Compared, ...] = ()
    comparison: str = ""
    """What --compare found, in words."""
    isolation: Isolation | None = None
    findings: tuple[Finding, ...] = field(name="problems", default=())
    """`problems` in JSON."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Of each part: "reach", "preflight", "run"."""

    @property
    def exit_status(self) -> int:
        """0 as it should be, 1 a fault was found or the test did not end, 3 NCCL was to be tested and could not be, 130
        interrupted.
        """
        if self.outcome == "interrupted":
            return 130
        bad = any(grade.verdict in ("degraded", "broken", "misconfigured") for grade in self.grades)
        errors = any(finding.problem.severity == "error" for finding in self.findings)
        slow = self.isolation is not None and bool(self.isolation.culprits)
        if self.outcome != "complete" or bad or errors or slow:
            return 1
        return 3 if self.fell_back else 0

    @property
    def fell_back(self) -> bool:
        """It went over gloo because NCCL could not be used, and not because gloo was asked for: NCCL is untested."""
        return self.backend == "gloo" and self.why_backend not in ("", GLOO_ASKED_FOR)

    def about(self) -> str:
        return folded(self.nodes)

    def stated(self) -> Iterator[Stated]:
        yield from (finding.stated() for finding in self.findings)
        for culprit in self.isolation.culprits if self.isolation is not None else ():
            yield Stated(
                id=f"slow-{culprit.kind}",
                severity="error",
                subject=subject(nodes=culprit.nodes, nic=culprit.nic),
                summary=culprit.why or "it is slower than the others",
                fix=Fix("Leave it out of the job, and look at its links, clocks and cables."),
            )

    @classmethod
    def of_earlier(cls, tree: dict[str, Any]) -> dict[str, Any]:
        return tree | {"problems": tree["findings"]} if "findings" in tree else tree
