"""Which nodes and links are slow or broken, judged from measured groups; for `isolate.Isolation`.

The model: a pair is as fast as its slowest part, node or link. So one good pair clears both of its nodes; a node that
is bad with a cleared partner, and good with nobody, is itself the bad part; and a bad pair of two cleared nodes has a
bad link. Noise of +-15% accuses nobody (0.85 / 1.15 = 0.74). How bad the pairs are is weighed: a node holds all of its
pairs at its own level, so that one pair far below its only other one is a bad link of it.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from msgspec import Struct

BAD_BELOW = 0.7
"""Of what healthy groups reach. Our rule of thumb: healthy links differ by up to 15% from run to run."""
GLOO_BAD_BELOW = 0.4
"""The same over gloo, whose ranks share the CPUs with everything else: on a busy machine, healthy pairs differed by a
factor of two (measured with other tests on the same two cores)."""
MILD = 0.5
"""Of the share below which a group is bad: what is above this is low rather than broken."""
FAR_BELOW = 0.2
"""Of the best pair of a node: a pair below this is not explained by the node. Our rule of thumb."""
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
    mild: frozenset[int] = frozenset()
    """Not cleared, but what is wrong with them is one link: their other pair is only somewhat low."""
    bad_below: float = BAD_BELOW
    """Of what healthy groups reach: less is bad."""
    unclear: frozenset[int] = frozenset()
    """Neither cleared nor guilty, though a pair with them is bad."""

    def bad_with_cleared(self, node: int) -> frozenset[int]:
        return self.bad_partners.get(node, frozenset()) & self.cleared


def judge(measured: Measured, nodes: int, *, over: bool = False, bad_below: float = BAD_BELOW) -> Judgement:
    """Judge `nodes` nodes by what was measured so far.

    The reference is the highest level that enough nodes reach, for half of the nodes may be slow. When the test is
    over and more than half of the nodes would be slow by it, the next level below is the norm, and the few are faster.
    """
    alone_levels = _levels([(value, (node,)) for node, value in measured.alone.items() if value], nodes, bad_below)
    alone = next(alone_levels, None)
    while over and alone is not None and _below(measured.alone.values(), alone, bad_below) * 2 > nodes:
        alone = next(alone_levels)
    bad_alone = frozenset(node for node, value in measured.alone.items() if is_bad(value, alone, bad_below))
    faster: float | None = None
    levels: list[float | None] = list(
        _levels([(value, pair) for pair, value in measured.pairs.items() if value], nodes, bad_below)
    )
    judgement = Judgement(bad_below=bad_below)
    for reference in levels or [None]:
        judgement = _by_pairs(measured, reference, alone, bad_alone, faster, bad_below)
        if not over or _slow_nodes(measured, judgement) * 2 <= nodes:
            break
        faster = faster or reference
    return judgement


def is_bad(value: float | None, reference: float | None, bad_below: float) -> bool:
    """A group that hung or died is bad; a slow one is when others show what it should reach."""
    return value is None or (reference is not None and value < bad_below * reference)


def _by_pairs(
    measured: Measured,
    reference: float | None,
    alone: float | None,
    bad_alone: frozenset[int],
    faster: float | None,
    bad_below: float,
) -> Judgement:
    bad = {pair for pair, value in measured.pairs.items() if is_bad(value, reference, bad_below)}
    cleared = frozenset(node for pair in measured.pairs if pair not in bad for node in pair) - bad_alone
    partners: dict[int, set[int]] = {}
    for one, other in bad:
        partners.setdefault(one, set()).add(other)
        partners.setdefault(other, set()).add(one)
    suspects = {
        node
        for node, others in partners.items()
        if node not in cleared and len(others) > 1 and not others.isdisjoint(cleared)
    } - bad_alone
    far = {node: _far_pairs(measured, node, partners[node] & cleared, reference, bad_below) for node in suspects}
    mild = {node for node in suspects if far[node] and len(partners[node]) - len(far[node]) == 1}
    guilty = (suspects - mild) | bad_alone
    far_pairs = {pair for node in mild for pair in far[node]}
    # A pair that an already guilty node explains says nothing about its other end.
    unclear = {
        node for node, others in partners.items() if node not in cleared | guilty | mild and not others <= guilty
    }
    return Judgement(
        pair_reference=reference,
        alone_reference=alone,
        faster=faster,
        cleared=cleared,
        bad_alone=bad_alone,
        bad_partners={node: frozenset(others) for node, others in partners.items()},
        bad_nodes=frozenset(guilty),
        bad_links=tuple(sorted({pair for pair in bad if cleared.issuperset(pair)} | far_pairs)),
        mild=frozenset(mild),
        bad_below=bad_below,
        unclear=frozenset(unclear),
    )


def _far_pairs(
    measured: Measured, node: int, others: Iterable[int], reference: float | None, bad_below: float
) -> set[Pair]:
    """The pairs with cleared nodes that are far below this node's best pair, where that one is only somewhat low."""
    best = max((value or 0.0 for pair, value in measured.pairs.items() if node in pair), default=0.0)
    if reference is None or best < MILD * bad_below * reference:
        return set()
    pairs = {(min(node, other), max(node, other)) for other in others}
    return {pair for pair in pairs if (measured.pairs[pair] or 0.0) < FAR_BELOW * best}


def _slow_nodes(measured: Measured, judgement: Judgement) -> int:
    """Nodes that would be slow, not broken, by a judgement: those without a good pair but with a slow one."""
    slow = {
        node
        for pair, value in measured.pairs.items()
        if value is not None and is_bad(value, judgement.pair_reference, judgement.bad_below)
        for node in pair
    }
    return len(slow - judgement.cleared)


def _below(values: Iterable[float | None], reference: float, bad_below: float) -> int:
    return sum(value is not None and is_bad(value, reference, bad_below) for value in values)


def _levels(samples: Sequence[Sample], nodes: int, bad_below: float) -> Iterator[float]:
    """Medians of groups of alike values, highest first; only levels that enough nodes reach."""
    ordered = sorted(samples)
    values = [value for value, _ in ordered]
    wanted = math.ceil(nodes / SHARE_OF_NODES)
    end = len(ordered)
    while end:
        start = bisect_left(values, bad_below * values[end - 1])
        if len({node for _, group in ordered[start:end] for node in group}) >= wanted or not start:
            yield median(values[start:end])
            end = start
        else:
            end -= 1
