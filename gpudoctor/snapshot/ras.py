"""What NCCL's RAS tells of a job's communicators."""

from msgspec import Struct, field


class RasRank(Struct, frozen=True, omit_defaults=True, kw_only=True):
    rank: int
    host: str = ""
    pid: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Collectives launched, by NCCL's name; {"": n} where only a total is told."""
    status: str = ""
    """ "RUNNING", "INIT", "ABORT", "unresponsive", "dead"."""


class RasCommunicator(Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    size: int
    errors: str = ""
    """ "OK", "MISMATCH", "INCOMPLETE", "ERROR" as NCCL says; or empty (JSON)."""
    ranks: tuple[RasRank, ...] = ()
    """All of them from JSON; from text only those that NCCL lists."""
    missing: tuple[RasRank, ...] = ()
    parties: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """From text, by NCCL's name of the collective: (how many ranks, up to which number they have launched)."""


class Ras(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One answer of NCCL's RAS."""

    at: float
    source: str
    nccl: str = ""
    communicators: tuple[RasCommunicator, ...] = ()
