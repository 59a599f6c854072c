"""Whether these nodes can train together, found out in seconds."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct, field

from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.messages import Touched
from gpudoctor.nccl.finding import Finding
from gpudoctor.snapshot import Snapshot


class PreflightWish(Struct, frozen=True, kw_only=True):
    """What the test that follows is going to do."""

    backend: Literal["auto", "nccl", "gloo"] = "auto"
    interface: str = ""
    """--interface: what NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME will name, where `settings` have them not."""
    master_address: str = ""
    master_port: int = 0
    """0: any free one from 61000 on."""
    python: str = ""
    """The training interpreter; empty: each node's own choice."""
    settings: dict[str, str] = field(default_factory=dict)
    """Set for all ranks, on top of each node's environment."""
    timeout: float = 10.0
    """Seconds that an examination may take."""


class ClockOffset(Struct, frozen=True):
    """How far a node's clock is ahead of the head's, in seconds, and how sure that is (half the round trip)."""

    seconds: float
    uncertainty: float


class Preflight(Struct, frozen=True, kw_only=True):
    """What was found out."""

    snapshots: dict[int, Snapshot]
    """Of the nodes that could be examined."""
    findings: tuple[Finding, ...]
    interpreters: dict[int, str]
    addresses: dict[int, str]
    """The address of each node by which the others reach it."""
    master_address: str
    master_port: int
    clocks: dict[int, ClockOffset] = {}
    reached: dict[int, tuple[Touched, ...]] = {}
    """What became of each node's connections."""
    seconds: dict[str, float] = {}
    """Of each step."""


def preflight(fleet: Fleet, wish: PreflightWish, *, on_step: Callable[[str], None] | None = None) -> Preflight:
    """Examine the nodes and try the ways between them. Takes seconds; never raises for what a node does."""
    raise NotImplementedError
