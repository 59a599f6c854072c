"""The answer of `gpudoctor train-test`, as published with --json."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from gpudoctor.check import without_lines
from gpudoctor.errors import BadInput
from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.rank_messages import Trained

SCHEMA = 1
"""Number of the layout."""


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


class TrainReport(Struct, frozen=True, kw_only=True):
    schema: int = SCHEMA
    gpudoctor: str = ""
    torch: str = ""
    nodes: tuple[str, ...] = ()
    ranks_per_node: tuple[int, ...] = ()
    backend: str = ""
    why_backend: str = ""
    reached_by: str = ""
    """ "local", "ssh", "srun" or "join"."""
    settings: dict[str, str] = {}
    """What was set for every rank on top of its node's environment."""
    device: str = ""
    """Rank 0's: the GPU's name, or "cpu"."""
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
    """The whole answer; its schema is docs/schemas/train-test.json. It ends with its exit status."""
    built = msgspec.to_builtins(report)
    built["exit_status"] = report.exit_status
    return msgspec.json.format(msgspec.json.encode(built), indent=2)


class _ReportHead(Struct):
    """What no answer lacks; all else has a default."""

    schema: int
    cells: list[msgspec.Raw]


class UnreadableTraining(BadInput):
    """Bytes that are no answer of train-test; the message is one line for the user."""


def from_json(raw: bytes) -> TrainReport:
    """Read an answer that `to_json` wrote. Raises `UnreadableTraining`."""
    try:
        msgspec.json.decode(raw, type=_ReportHead)
        report = msgspec.json.decode(raw, type=TrainReport)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableTraining(f"not an answer of gpudoctor train-test --json: {error}") from None
    if report.schema != SCHEMA:
        raise UnreadableTraining(f"train-test schema {report.schema}; this gpudoctor reads schema {SCHEMA}")
    return without_lines(report)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `gpudoctor train-test --json`."""
    return msgspec.json.schema(TrainReport)
