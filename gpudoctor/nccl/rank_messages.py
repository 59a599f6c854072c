"""What a rank of the test says (workers/collective.py), as marked JSON lines on its standard output.

Each line is at most 4,000 bytes, for all ranks of a node write into one pipe and only so long a write is atomic
(PIPE_BUF). The agent forwards the rows, the world, the errors, and the phases of the lowest local rank.
"""

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


class Failed(Struct, frozen=True, kw_only=True, tag="failed"):
    """The exception that ends a rank."""

    rank: int
    phase: str
    error: str


class Finished(Struct, frozen=True, kw_only=True, tag="finished"):
    rank: int


AnyRankMessage = Begun | Phase | Member | Row | Skipped | Failed | Finished

decoder: msgspec.json.Decoder[AnyRankMessage] = msgspec.json.Decoder(AnyRankMessage)
