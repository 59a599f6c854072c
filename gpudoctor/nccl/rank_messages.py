"""What a rank of the test says (workers/collective.py), as marked JSON lines on its standard output.

Each line is at most 4,000 bytes, for all ranks of a node write into one pipe and only so long a write is atomic
(PIPE_BUF). The agent forwards the rows, the world, the errors, and the phases of the lowest local rank.
"""

from typing import Literal

import msgspec
from msgspec import Struct


class Begun(Struct, frozen=True, kw_only=True, tag="begun"):
    """A rank's process is there. `log_fd`, `error_fd`: files in memory that hold NCCL's log and its standard error."""

    rank: int
    local_rank: int
    world_size: int
    pid: int
    log_fd: int = -1
    error_fd: int = -1


class Phase(Struct, frozen=True, kw_only=True, tag="phase"):
    rank: int
    phase: str


class Member(Struct, frozen=True, kw_only=True, tag="member"):
    """One rank as the world sees it; rank 0 says all of them, one line each, before the first row."""

    rank: int
    world_size: int
    """As torch.distributed says."""
    host: str
    local_rank: int
    device: str = "cpu"
    """The GPU's name, or "cpu"."""
    bus_id: str = ""
    free_bytes: int = 0
    torch: str = ""
    cuda: str = ""
    nccl: str = ""
    """ "2.28.9"; empty for gloo."""
    python: str = ""
    """In symmetric mode only, as are the settings: there is no preflight that compares them."""
    settings: dict[str, str] = {}
    """NCCL_*, GLOO_* and the like of the rank's environment, as far as they fit the line."""


class Row(Struct, frozen=True, kw_only=True, tag="row"):
    """One collective at one size, from rank 0. Times in microseconds, of one operation.

    Each rank's time is the median of its windows; minimum, mean and maximum are over the ranks. Bandwidths are in
    GB/s (1e9 bytes) and computed of the maximum: nccl-tests' mean hides a straggler.
    """

    collective: str
    size_bytes: int
    """What was really moved: the size asked for, rounded to whole elements and ranks."""
    count: int
    """Elements, as in nccl-tests' count column: of one rank's part for all_gather, reduce_scatter and all_to_all."""
    dtype: str
    iterations: int
    minimum_us: float
    mean_us: float
    maximum_us: float
    slowest_rank: int
    algorithm_bandwidth: float
    bus_bandwidth: float
    wrong: int | None = None
    """Elements that were not what they must be, over all ranks; None: not checked."""
    wrong_ranks: tuple[int, ...] = ()
    """The first 64 of them."""


class Skipped(Struct, frozen=True, kw_only=True, tag="skipped"):
    """A size that was not measured, and why (memory)."""

    collective: str
    size_bytes: int
    reason: str


class Fault(Struct, frozen=True, kw_only=True):
    """The first thing that was not as it must be."""

    kind: str
    """ "initial weights", "sampler overlap", "sampler loss", "sampler epoch", "gradient", "parameter", "loss",
    "device", "precision", "overflow not skipped", "loss scale", "not finite"."""
    rank: int | None = None
    """The rank that differs from the others, or from what must be; None when no one rank does."""
    parameter: str = ""
    """Its name in the plain model: "blocks.1.weight"."""
    step: int | None = None
    """From 0."""
    seen: str = ""
    """With numbers: "relative difference 0.31"."""
    wanted: str = ""


class Trained(Struct, frozen=True, kw_only=True, tag="trained"):
    """What became of one way of training with one precision; from rank 0, for all ranks."""

    way: str
    precision: str
    outcome: Literal["passed", "failed", "not applicable"]
    reason: str = ""
    """Why it does not apply here, or the exception that ended it."""
    fault: Fault | None = None
    ranks: int = 1
    devices: tuple[str, ...] = ()
    """Of the ranks in their order, or those that one process used: "cuda:0", "cpu"."""
    step_seconds: float | None = None
    """Median of the steps after the first three, on the slowest rank."""
    peak_bytes: dict[str, int] = {}
    """Device ("node-a cuda:0") -> the most that was allocated; on a CPU the growth of the resident set."""
    loss: float | None = None
    """Of the last step, over the global batch."""
    reference_loss: float | None = None
    """Of the single-process run on the same global batches."""
    notes: tuple[str, ...] = ()
    """What is worth knowing though it passed: DataParallel's costs, a deprecated name, a wrapper's prefix."""


class Failed(Struct, frozen=True, kw_only=True, tag="failed"):
    """The exception that ends a rank."""

    rank: int
    phase: str
    error: str


class Finished(Struct, frozen=True, kw_only=True, tag="finished"):
    rank: int


AnyRankMessage = Begun | Phase | Member | Row | Skipped | Trained | Failed | Finished

decoder: msgspec.json.Decoder[AnyRankMessage] = msgspec.json.Decoder(AnyRankMessage)
