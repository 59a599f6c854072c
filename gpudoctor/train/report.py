"""The answer of `gpudoctor train-test`, as published with --json."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from gpudoctor.envelope import Answer, Stated
from gpudoctor.fleet.names import folded
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.rank_messages import Trained


class Cell(Struct, frozen=True, kw_only=True):
    """A way of training with one precision."""

    way: str
    precision: str
    outcome: Literal["passed", "failed", "not applicable", "hung", "crashed", "not reached"]
    """hung, crashed: its ranks stood still or died before they could say more. not reached: the test ended before."""
    trained: Trained | None = None
    reason: str = ""
    """Why it does not apply, was not reached, or failed."""
    finding: Finding | None = None
    """What is wrong, with rank, parameter and step, and what to do; None when nothing is."""


class TrainReport(Answer, frozen=True, kw_only=True):
    command: ClassVar[str] = "train-test"
    signs: ClassVar[tuple[str, ...]] = ("schema", "cells")
    torch: str = ""
    nodes: tuple[str, ...] = ()
    ranks_per_node: tuple[int, ...] = ()
    backend: str = ""
    why_backend: str = ""
    reached_by: str = ""
    """ "local", "ssh", "srun" or "join"."""
    settings: dict[str, str] = field(default_factory=dict)
    """What was set for every rank on top of its node's environment."""
    device: str = ""
    """Rank 0's: the GPU's name, or "cpu"."""
    steps: int = 0
    cells: tuple[Cell, ...] = ()
    findings: tuple[Finding, ...] = field(name="problems", default=())
    """`problems` in JSON: of the preflight, and of what is no single cell's."""
    outcome: Literal["complete", "interrupted", "preflight failed", "too few nodes"] = "complete"
    seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """0 all that apply pass; 1 one does not; 3 none applies; 130 interrupted."""
        if self.outcome == "interrupted":
            return 130
        bad = any(cell.outcome not in ("passed", "not applicable") for cell in self.cells)
        errors = any(finding.problem.severity == "error" for finding in self.findings)
        if bad or errors or self.outcome != "complete":
            return 1
        return 0 if any(cell.outcome == "passed" for cell in self.cells) else 3

    def about(self) -> str:
        return folded(self.nodes)

    def stated(self) -> Iterator[Stated]:
        of_cells = (cell.finding for cell in self.cells if cell.finding is not None)
        yield from (finding.stated() for finding in (*self.findings, *of_cells))

    @classmethod
    def of_earlier(cls, tree: dict[str, Any]) -> dict[str, Any]:
        return tree | {"problems": tree["findings"]} if "findings" in tree else tree
