"""Pure rules: which ranks are wrong, given what each has, and how a difference is said."""

from collections import Counter
from typing import Any, List, Optional, Sequence

NAMED = 8


def odd_ones(digests: Sequence[int], differences: Sequence[float], tolerance: float) -> List[int]:
    """The ranks that are wrong, when it can be told; [] when it cannot.

    `differences`: each rank's, to what must be. Where it tells some of them from the others, it decides; otherwise
    the ranks of which a majority has the same are taken to be right.
    """
    off = [rank for rank, difference in enumerate(differences) if not difference <= tolerance]
    if 0 < len(off) < len(differences):
        return off
    common, count = Counter(digests).most_common(1)[0] if digests else (0, 0)
    if 2 * count > len(digests):
        return [rank for rank, one in enumerate(digests) if one != common]
    return []


def one_rank(ranks: Sequence[int], of: int) -> Optional[int]:
    """The first of them, unless they are none or all."""
    return ranks[0] if 0 < len(ranks) < of or (ranks and of == 1) else None


def ranks_text(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 1 and 2", "ranks 0, 1, 2 and 61 more"."""
    named = [str(rank) for rank in ranks[:NAMED]]
    if len(ranks) == 1:
        return f"rank {named[0]}"
    if len(ranks) > NAMED:
        return f"ranks {', '.join(named)} and {len(ranks) - NAMED} more"
    return f"ranks {', '.join(named[:-1])} and {named[-1]}"


def number_text(number: float) -> str:
    """ "0.31", "2e-06", "not finite"."""
    return f"{number:.2g}" if abs(number) < float("inf") else "not finite"


def fault(
    kind: str,
    rank: Optional[int] = None,
    parameter: str = "",
    step: Optional[int] = None,
    seen: str = "",
    wanted: str = "",
) -> "dict[str, Any]":
    """The fields of nccl/rank_messages.Fault."""
    return {"kind": kind, "rank": rank, "parameter": parameter, "step": step, "seen": seen, "wanted": wanted}
