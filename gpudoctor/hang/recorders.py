"""What the flight recorders of all ranks say together: where they agree, where not, who is behind."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gpudoctor.hang.evidence import Collective, Recorder


class Split(Struct, frozen=True, kw_only=True):
    """The first collective that the ranks of a group do not agree on."""

    group: str
    description: str
    sequence: int
    kind: Literal["missing", "operation", "shape", "dtype", "peer", "none"]
    """missing: some ranks have not come to it. operation, shape, dtype: they came with different ones. none: all came
    with the same, and it has not completed (network, GPU, or a rank that died in it)."""
    behind: tuple[int, ...] = ()
    """Ranks that have not come to it (kind "missing")."""
    parties: tuple[tuple[tuple[int, ...], Collective], ...] = ()
    """Who came with what: ranks, and the entry of the first of them; the largest party first."""
    elsewhere: tuple[tuple[int, Collective], ...] = ()
    """What a rank of `behind` is in instead, in another group, where its recorder tells."""


class Agreement(Struct, frozen=True, kw_only=True):
    ranks: tuple[int, ...]
    """Whose recorders were read."""
    unread: tuple[int, ...] = ()
    """Ranks of the world whose recorders were not."""
    first: Split | None = None
    """Over the groups, the one that comes first: the first group with missing ranks wins (a rank that stands in one
    group keeps others waiting in another). None when all that was recorded has completed."""
    splits: tuple[Split, ...] = ()
    """One a group that does not agree, `first` among them."""
    last_completed: Mapping[str, int] = {}
    """By group: the last collective that every rank has completed."""
    current: Mapping[int, Collective] = {}
    """By rank: the oldest entry that has not completed."""
    stale: bool = False
    """Read from files that were written before the present look."""


def compare(recorders: Mapping[int, Recorder], world_size: int) -> Agreement:
    """Compare the recorders of a job, by rank. Linear in the number of entries."""
    raise NotImplementedError
