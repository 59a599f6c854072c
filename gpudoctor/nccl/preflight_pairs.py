"""Which connections to try, and how to say in few words which of them failed."""

import random
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

ALL_PAIRS_UP_TO = 32
"""Nodes; 992 connections. Beyond, each node is tried with a fixed number of others."""
RANDOM_PEERS = 3
SEED = 20240601
"""Fixed, so that two runs on the same nodes try the same pairs."""

Pair = tuple[str, str]
"""(who connects, to whom)."""


def pairs(nodes: Sequence[int], *, seed: int = SEED) -> dict[int, tuple[int, ...]]:
    """Whom each node connects to: everybody, or both neighbours of a ring and some at random, in both directions.

    Every tried pair is tried in both directions, so that one-way filters show.
    """
    if len(nodes) <= ALL_PAIRS_UP_TO:
        return {node: tuple(other for other in nodes if other != node) for node in nodes}
    peers: dict[int, set[int]] = {node: set() for node in nodes}
    generator = random.Random(seed)
    for place, node in enumerate(nodes):
        others = [nodes[(place + 1) % len(nodes)]]
        others += [nodes[(place + generator.randrange(1, len(nodes))) % len(nodes)] for _ in range(RANDOM_PEERS)]
        for other in others:
            peers[node].add(other)
            peers[other].add(node)
    return {node: tuple(sorted(found)) for node, found in peers.items()}


class Cut(NamedTuple):
    """Some failed connections that have one explanation.

    everything: none at all got through. into, out of, both: `nodes` cannot be reached by any other tried node, reach
    none, or neither. pair: nothing between `nodes[0]` and `nodes[1]`. one way: `nodes[0]` cannot reach `nodes[1]`.
    """

    kind: Literal["everything", "into", "out of", "both", "pair", "one way"]
    nodes: tuple[str, ...]
    failed: tuple[Pair, ...]


def cuts(tried: Iterable[Pair], failed: Iterable[Pair]) -> list[Cut]:
    """The failed connections, each in one cut: whole nodes before single pairs."""
    tried = list(dict.fromkeys(tried))
    left = dict.fromkeys(failed)
    if not left:
        return []
    members = tuple(dict.fromkeys(node for pair in tried for node in pair))
    if len(left) == len(tried) and len(members) > 2:
        return [Cut("everything", members, tuple(left))]
    incoming: dict[str, list[Pair]] = {}
    outgoing: dict[str, list[Pair]] = {}
    for pair in tried:
        outgoing.setdefault(pair[0], []).append(pair)
        incoming.setdefault(pair[1], []).append(pair)
    broken = set(left)
    into = [node for node in members if _whole(incoming.get(node, ()), broken)]
    explained = {pair for node in into for pair in incoming[node]}
    # Only where something is left to explain: with two closed nodes of three, the third one reaches nobody either.
    out = [
        node
        for node in members
        if _whole(outgoing.get(node, ()), broken) and any(pair not in explained for pair in outgoing[node])
    ]
    cuts_seen = []
    for kind, group in (
        ("both", [node for node in into if node in out]),
        ("into", [node for node in into if node not in out]),
        ("out of", [node for node in out if node not in into]),
    ):
        mine = [
            pair for pair in left if (kind != "out of" and pair[1] in group) or (kind != "into" and pair[0] in group)
        ]
        if group and mine:
            cuts_seen.append(Cut(kind, tuple(group), tuple(mine)))  # type: ignore[arg-type]
            for pair in mine:
                del left[pair]
    while left:
        pair = next(iter(left))
        del left[pair]
        back = (pair[1], pair[0])
        if back in left:
            del left[back]
            cuts_seen.append(Cut("pair", pair, (pair, back)))
        else:
            cuts_seen.append(Cut("one way", pair, (pair,)))
    return cuts_seen


def _whole(some: Sequence[Pair], broken: set[Pair]) -> bool:
    """Whether all of several connections failed; a single one says nothing of its node."""
    return len(some) > 1 and all(pair in broken for pair in some)
