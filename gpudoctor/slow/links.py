"""Whether the network of one node is slow: what its ranks send is answered late or sent again, and between the other
nodes it is not. A slow link holds up all ranks alike, so nobody's lateness tells it.
"""

import math
from collections.abc import Sequence
from statistics import fmean, median

from msgspec import Struct

from gpudoctor.envelope import Seen
from gpudoctor.slow.words import duration
from gpudoctor.snapshot.pace import LinkUse, NodePace

LEAST_ANSWER_SECONDS = 0.003
TIMES_SLOWER, TIMES_BUSIER = 2.0, 2.0
"""Than the connections of the others with each other: both, for a crowded machine shows one of them too."""
LEAST_BUSY = 0.2
"""Of the time, in which something was under way."""
TIMES_LOST = 5.0
LEAST_AGAIN, LEAST_AGAIN_SHARE = 10, 0.005
LEAST_SENT = 100
"""Segments with data, below which nothing is said of what was lost: our rules of thumb."""
LEAST_NODES = 3
"""Of two, the connection between them is slow, and nothing tells whose."""
TIMES_NARROWER = 10.0
LEAST_TAKEN = 0.1
"""Of the time, that what was sent takes on a way that is held to so little: our rules of thumb."""


class SlowNetwork(Struct, frozen=True, kw_only=True):
    """Of one node, or of the way from it to another."""

    node: int
    to: int | None = None
    """The other end, where one way alone is slow and its ends are not told apart."""
    words: str
    evidence: tuple[Seen, ...]


def slow_network(nodes: Sequence[NodePace]) -> SlowNetwork | None:
    """The node whose connections are worse than all others; None: there is none, or not one alone."""
    owner = {link.local: number for number, node in enumerate(nodes) for link in node.links}
    ways: dict[tuple[int, int], list[LinkUse]] = {}
    for number, node in enumerate(nodes):
        for link in node.links:
            if owner.get(link.peer, number) != number:
                ways.setdefault((number, owner[link.peer]), []).append(link)
    there = sorted({number for way in ways for number in way})
    if len(there) < LEAST_NODES:
        return None
    ill = [slow for number in there if (slow := _late(nodes, ways, number) or _lossy(nodes, ways, number)) is not None]
    return ill[0] if len(ill) == 1 else None if ill else _narrow(nodes, ways)


def _narrow(nodes: Sequence[NodePace], ways: dict[tuple[int, int], list[LinkUse]]) -> SlowNetwork | None:
    """Ways that hold back what they are given, at a tenth of what others have carried. A ring gives most of what it
    sends to one neighbour, so one way may be all that is waited for; what else leaves or reaches an end of it, however
    little, tells which of both it is."""
    held = {way: _held_to(links) for way, links in ways.items() if _held_to(links)}
    reached = {way: max(link.reached for link in links) for way, links in ways.items()}
    others = [rate for way, rate in reached.items() if way not in held] or list(reached.values())
    usual = median(others) if others else 0.0
    narrow = {way: rate for way, rate in held.items() if TIMES_NARROWER * rate <= usual}
    slow = {way: rate for way, rate in narrow.items() if _is_waited_for(ways[way])}
    if not slow:
        return None
    first, *more = slow
    shared = set(first).intersection(*narrow) or set(first).intersection(*more)
    if not shared:
        return None
    node, to = first if len(shared) > 1 else (shared.pop(), None)
    rate = max(slow.values())
    taken = max(link.carried / rate for way in slow for link in ways[way])
    out, into = (f"from {nodes[first[0]].host}", f"to {nodes[first[1]].host}")
    where = f"{out} {into}" if to is not None else f"{'from' if first[0] == node else 'to'} {nodes[node].host}"
    return SlowNetwork(
        node=node,
        to=to,
        words=f"what is sent {where} is held to {_rate(rate)}, which takes {min(1.0, taken):.0%} of the time; other "
        f"ways have carried {_rate(usual)}",
        evidence=_seen(nodes, ways, f"network {where}"),
    )


def _held_to(links: Sequence[LinkUse]) -> float:
    return min((link.held_to for link in links if link.held_to), default=0.0)


def _is_waited_for(links: Sequence[LinkUse]) -> bool:
    return any(link.held_to and link.carried >= LEAST_TAKEN * link.held_to for link in links)


def _rate(bytes_a_second: float) -> str:
    bits = 8 * bytes_a_second
    return f"{bits / 1e9:.3g} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:.2g} Mbit/s"


def _late(nodes: Sequence[NodePace], ways: dict[tuple[int, int], list[LinkUse]], number: int) -> SlowNetwork | None:
    """By pair of nodes, the slower of both directions: with a slow way out, answers to what came in are late too."""
    pairs: dict[frozenset[int], float] = {}
    for way, links in ways.items():
        pairs[frozenset(way)] = max(pairs.get(frozenset(way), 0.0), *(link.answers_after for link in links))
    own = [seconds for pair, seconds in pairs.items() if number in pair]
    rest = [seconds for pair, seconds in pairs.items() if number not in pair]
    if len(own) < 2 or not rest or min(own) < max(LEAST_ANSWER_SECONDS, TIMES_SLOWER * max(rest)):
        return None
    busy = fmean(link.busy for way, links in ways.items() if number in way for link in links)
    others_busy = fmean(link.busy for way, links in ways.items() if number not in way for link in links)
    if busy < max(LEAST_BUSY, TIMES_BUSIER * others_busy):
        return None
    name = nodes[number].host
    return SlowNetwork(
        node=number,
        words=f"what is sent to and from it is answered after {duration(median(own))}, between other nodes after "
        f"{_short(median(rest))}",
        evidence=_seen(nodes, ways, f"network of {name}"),
    )


def _lossy(nodes: Sequence[NodePace], ways: dict[tuple[int, int], list[LinkUse]], number: int) -> SlowNetwork | None:
    """Packets on their way to it are lost, or those from it, and no others."""
    for end, words in ((1, "to"), (0, "from")):
        own = [_again(links) for way, links in ways.items() if way[end] == number and _sent(links) >= LEAST_SENT]
        rest = [_again(links) for way, links in ways.items() if number not in way and _sent(links) >= LEAST_SENT]
        lost = sum(link.sent_again for way, links in ways.items() if way[end] == number for link in links)
        if not own or not rest or lost < LEAST_AGAIN or min(own) < LEAST_AGAIN_SHARE:
            continue
        if min(own) >= TIMES_LOST * max(rest):
            return SlowNetwork(
                node=number,
                words=f"{median(own):.1%} of what is sent {words} it is lost and sent again, between other nodes "
                f"{median(rest):.1%}",
                evidence=_seen(nodes, ways, f"network of {nodes[number].host}"),
            )
    return None


def _sent(links: Sequence[LinkUse]) -> int:
    return sum(link.sent for link in links)


def _again(links: Sequence[LinkUse]) -> float:
    return sum(link.sent_again for link in links) / max(1, _sent(links))


def _seen(nodes: Sequence[NodePace], ways: dict[tuple[int, int], list[LinkUse]], source: str) -> tuple[Seen, ...]:
    narrow_first = sorted(ways.items(), key=lambda way: _held_to(way[1]) or math.inf)
    worst = sorted(narrow_first, key=lambda way: -max(link.answers_after for link in way[1]))[:8]
    return tuple(
        Seen(
            source,
            f"{nodes[way[0]].host} to {nodes[way[1]].host}: answered after "
            f"{_short(max(link.answers_after for link in links))}, {sum(link.sent_again for link in links)} of "
            f"{_sent(links)} segments sent again, {max(link.busy for link in links):.0%} of the time under way"
            + (f", held to {_rate(held)}" if (held := _held_to(links)) else ""),
        )
        for way, links in worst
    )


def _short(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.01 else duration(seconds)
