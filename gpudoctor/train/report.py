"""The answer of `gpudoctor train-test`, as published with --json."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.rank_messages import Trained


class Cell(Struct, frozen=True, kw_only=True):
    """A way of training with one precision."""

    way: str
    precision: str
    outcome: Literal["passed", "failed", "not applicable", "hung", "crashed", "not reached"]
    """hung, crashed: its ranks stood still or died before they could say more. not reached: the test ended before."""
    trained: Trained | None = None
    finding: Finding | None = None
    """What is wrong, with rank, parameter and step, and what to do; None when nothing is."""


class TrainReport(Struct, frozen=True, kw_only=True):
    schema: int = 1
    gpudoctor: str = ""
    torch: str = ""
    nodes: tuple[str, ...] = ()
    ranks_per_node: tuple[int, ...] = ()
    backend: str = ""
    steps: int = 0
    cells: tuple[Cell, ...] = ()
    findings: tuple[Finding, ...] = ()
    """Of the preflight, and of what is no single cell's."""
    outcome: Literal["complete", "interrupted", "preflight failed", "too few nodes"] = "complete"
    seconds: float = 0.0

    @property
    def exit_status(self) -> int:
        """0 all that apply pass; 1 one does not; 130 interrupted."""
        if self.outcome == "interrupted":
            return 130
        bad = any(cell.outcome not in ("passed", "not applicable") for cell in self.cells)
        errors = any(finding.problem.severity == "error" for finding in self.findings)
        return int(bad or errors or self.outcome != "complete")


def to_json(report: TrainReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `gpudoctor train-test --json`."""
    return msgspec.json.schema(TrainReport)
