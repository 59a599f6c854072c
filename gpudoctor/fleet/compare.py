"""In what the machines of a fleet differ from most of them."""

from collections.abc import Mapping

from msgspec import Struct

from gpudoctor.snapshot import Snapshot


class Group(Struct, frozen=True):
    """Nodes that have the same value."""

    value: str
    nodes: tuple[str, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """A fact that is not the same on all nodes."""

    fact: str
    """ "driver", "torch", "NCCL", "kernel", "GPUs", "NCCL_IB_HCA" ..."""
    majority: str
    """What most nodes have."""
    count: int
    """How many have it."""
    others: tuple[Group, ...]
    """Who has something else, the most common first."""
    unread: tuple[Group, ...] = ()
    """Nodes where it could not be read, by the reason."""


def differences(snapshots: Mapping[str, Snapshot]) -> tuple[Difference, ...]:
    """What differs, by the names of the nodes."""
    raise NotImplementedError
