"""Which nodes and links are slow or broken, judged from measured groups; for `isolate.Isolation`.

The model: a pair is as fast as its slowest part, node or link. So one good pair clears both of its nodes; a node that
is bad with a cleared partner, and good with nobody, is itself the bad part; and a bad pair of two cleared nodes has a
bad link. Noise of +-15% accuses nobody (0.85 / 1.15 = 0.74).
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from msgspec import Struct

BAD_BELOW = 0.7
"""Of what healthy groups reach. Our rule of thumb: healthy links differ by up to 15% from run to run."""
SHARE_OF_NODES = 10
"""A level is that of healthy groups when at least one node in so many reaches it; a faster few are special."""

Pair = tuple[int, int]
Sample = tuple[float, tuple[int, ...]]


class Measured(Struct):
    """Bus bandwidths, GB/s, by node and by pair (lower index first); None: it hung or died."""

    alone: dict[int, float | None]
    pairs: dict[Pair, float | None]


class Judgement(Struct, frozen=True, kw_only=True):
    """Nodes are indices."""

    pair_reference: float | None = None
    """What pairs of healthy nodes reach, GB/s; None when no pair has ended."""
    alone_reference: float | None = None
    faster: float | None = None
    """A level above `pair_reference` which only a minority of the nodes reaches, GB/s."""
    cleared: frozenset[int] = frozenset()
    bad_alone: frozenset[int] = frozenset()
    bad_partners: Mapping[int, frozenset[int]] = {}
    """Node -> those that it was slow or hung with."""
    bad_nodes: frozenset[int] = frozenset()
    bad_links: tuple[Pair, ...] = ()
    unclear: frozenset[int] = frozenset()
    """Neither cleared nor guilty, though a pair with them is bad."""

    def bad_with_cleared(self, node: int) -> frozenset[int]:
        return self.bad_partners.get(node, frozenset()) & self.cleared


def judge(measured: Measured, nodes: int, *, over: bool = False) -> Judgement:
    """Judge `nodes` nodes by what was measured so far.

    The reference is the highest level that enough nodes reach, for half of the nodes may be slow. When the test is
    over and more than half of the nodes would be slow by it, the next level below is the norm, and the few are faster.
    """
    alone_levels = _levels([(value, (node,)) for node, value in measured.alone.items() if value], nodes)
    alone = next(alone_levels, None)
    while over and alone is not None and _below(measured.alone.values(), alone) * 2 > nodes:
        alone = next(alone_levels)
    bad_alone = frozenset(node for node, value in measured.alone.items() if is_bad(value, alone))
    faster: float | None = None
    levels: list[float | None] = list(
        _levels([(value, pair) for pair, value in measured.pairs.items() if value], nodes)
    )
    found = Judgement()
    for reference in levels or [None]:
        found = _by_pairs(measured, reference, alone, bad_alone, faster)
        if not over or _slow_nodes(measured, found) * 2 <= nodes:
            break
        faster = faster or reference
    return found


def is_bad(value: float | None, reference: float | None) -> bool:
    """A group that hung or died is bad; a slow one is when others show what it should reach."""
    return value is None or (reference is not None and value < BAD_BELOW * reference)


def _by_pairs(
    measured: Measured, reference: float | None, alone: float | None, bad_alone: frozenset[int], faster: float | None
) -> Judgement:
    bad = {pair for pair, value in measured.pairs.items() if is_bad(value, reference)}
    cleared = frozenset(node for pair in measured.pairs if pair not in bad for node in pair) - bad_alone
    partners: dict[int, set[int]] = {}
    for one, other in bad:
        partners.setdefault(one, set()).add(other)
        partners.setdefault(other, set()).add(one)
    guilty = {
        node
        for node, others in partners.items()
        if node not in cleared and len(others) > 1 and not others.isdisjoint(cleared)
    } | bad_alone
    # A pair that an already guilty node explains says nothing about its other end.
    unclear = {
        node for node, others in partners.items() if node not in cleared and node not in guilty and not others <= guilty
    }
    return Judgement(
        pair_reference=reference,
        alone_reference=alone,
        faster=faster,
        cleared=cleared,
        bad_alone=bad_alone,
        bad_partners={node: frozenset(others) for node, others in partners.items()},
        bad_nodes=frozenset(guilty),
        bad_links=tuple(sorted(pair for pair in bad if cleared.issuperset(pair))),
        unclear=frozenset(unclear),
    )


def _slow_nodes(measured: Measured, found: Judgement) -> int:
    """Nodes that would be slow, not broken, by a judgement: those without a good pair but with a slow one."""
    slow = {
        node
        for pair, value in measured.pairs.items()
        if value is not None and is_bad(value, found.pair_reference)
        for node in pair
    }
    return len(slow - found.cleared)


def _below(values: Iterable[float | None], reference: float) -> int:
    return sum(value is not None and is_bad(value, reference) for value in values)


def _levels(samples: Sequence[Sample], nodes: int) -> Iterator[float]:
    """Medians of groups of alike values, highest first; only levels that enough nodes reach."""
    ordered = sorted(samples)
    values = [value for value, _ in ordered]
    wanted = math.ceil(nodes / SHARE_OF_NODES)
    end = len(ordered)
    while end:
        start = bisect_left(values, BAD_BELOW * values[end - 1])
        if len({node for _, group in ordered[start:end] for node in group}) >= wanted or not start:
            yield median(values[start:end])
            end = start
        else:
            end -= 1
