"""Collectives side by side: for each of one process group, when each of its ranks came to it, by one clock."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from gpudoctor.snapshot.pace import CollectiveTimes, NodePace, RankTimes

LEAST = 24
"""Collectives that all ranks of a group have in common, below which nothing is said of it: our rule of thumb."""
REPEATS = 3
"""So often the same must follow each other to be steps."""
ALIKE = 0.95
"""Of the collectives must be those of a step before: an evaluation or a logged value comes between."""


class RankClock(Struct, frozen=True):
    """A rank's times, and its clock against the head's."""

    times: RankTimes
    node: int
    host: str
    offset_ns: int
    uncertainty: float
    """Seconds."""


class GroupTimes(Struct, frozen=True, kw_only=True):
    """One process group."""

    key: str
    description: str
    ranks: tuple[int, ...]
    nodes: tuple[int, ...]
    """Of each of `ranks`."""
    came: tuple[tuple[float, ...], ...]
    """By collective, the oldest first: when each of `ranks` came, in seconds after some moment."""
    names: tuple[str, ...]
    """Of each collective."""
    timed: bool
    """`came` is when the GPU began it, by how long each rank's GPU was in it; else when the CPU issued it."""
    backend: str

    @property
    def seconds(self) -> float:
        """From the first to the last that is compared."""
        return max(self.came[-1]) - min(self.came[0]) if self.came else 0.0


def clocks(nodes: Sequence[NodePace]) -> dict[int, RankClock]:
    """By rank. One that two processes claim is nobody's."""
    by_rank: dict[int, RankClock] = {}
    twice: set[int] = set()
    for number, node in enumerate(nodes):
        offset = node.clock_offset_seconds or 0.0
        for times in node.ranks:
            if times.rank in by_rank:
                twice.add(times.rank)
            by_rank[times.rank] = RankClock(
                times, number, node.host, round(offset * 1e9), node.clock_uncertainty_seconds if len(nodes) > 1 else 0.0
            )
    return {rank: clock for rank, clock in sorted(by_rank.items()) if rank not in twice}


def groups(ranks: Mapping[int, RankClock], since_ns: int = 0) -> Iterator[GroupTimes]:
    """Every group with two ranks or more that have `LEAST` collectives in common, issued after `since_ns` of the head's
    clock; the busiest first. Not of those between the stages of a pipeline."""
    members: dict[str, dict[int, CollectiveTimes]] = {}
    for rank, clock in ranks.items():
        for group in clock.times.groups:
            members.setdefault(group.group, {})[rank] = group
    members = {key: own for key, own in members.items() if not _of_stages([ranks[rank].times for rank in own])}
    made = [_side_by_side(key, own, ranks, since_ns) for key, own in members.items() if len(own) > 1]
    groups_seen = [group for group in made if len(group.came) >= LEAST]
    yield from sorted(groups_seen, key=lambda group: (-len(group.ranks), -len(group.came), group.key))


def _of_stages(own: Sequence[RankTimes]) -> bool:
    """Whether some of these send to each other: the stages of a pipeline end a step one after the other, by design."""
    every = [key for times in own for key in times.pipelines]
    return len(every) > len({*every})


def _side_by_side(
    key: str, own: Mapping[int, CollectiveTimes], ranks: Mapping[int, RankClock], since_ns: int
) -> GroupTimes:
    by_sequence = [dict(zip(times.sequences, range(len(times.sequences)), strict=True)) for times in own.values()]
    everywhere = set(by_sequence[0]).intersection(*by_sequence[1:])
    common = [number for number in by_sequence[0] if number in everywhere]  # in the order in which they came
    offsets = [ranks[rank].offset_ns for rank in own]
    issued = [
        [
            times.created_ns[at[number]] - offset
            for times, at, offset in zip(own.values(), by_sequence, offsets, strict=True)
        ]
        for number in common
    ]
    kept = [at for at, times in enumerate(issued) if min(times) >= since_ns]
    base = min(issued[kept[0]]) if kept else 0
    ran = [
        [
            times.ran_ms[at[common[place]]] if times.ran_ms else 0.0
            for times, at in zip(own.values(), by_sequence, strict=True)
        ]
        for place in kept
    ]
    # The newest have not ended: they have no time yet.
    timed = bool(ran) and sum(all(times) for times in ran) >= max(LEAST, len(ran) // 2)
    came: list[tuple[float, ...]] = []
    names: list[str] = []
    first, places = next(iter(own.values())), by_sequence[0]
    for place, times in zip(kept, ran, strict=True):
        if timed and not all(times):
            continue
        at = [(time - base) / 1e9 for time in issued[place]]
        # All leave a collective together: whose GPU was in it for the shortest time came last.
        came.append(tuple(max(at) - time / 1e3 for time in times) if timed else tuple(at))
        names.append(first.names[first.kinds[places[common[place]]]])
    begin = steps_begin(names)
    return GroupTimes(
        key=key,
        description=first.description,
        ranks=tuple(own),
        nodes=tuple(ranks[rank].node for rank in own),
        came=tuple(came[begin:]),
        names=tuple(names[begin:]),
        timed=timed,
        backend=next(iter(ranks[rank].times.backend for rank in own)),
    )


def of_a_step(names: Sequence[object]) -> int:
    """How many collectives a step has: the shortest series that follows upon itself; 0 where none does."""
    for length in range(1, len(names) // REPEATS + 1):
        same = sum(names[at] == names[at + length] for at in range(len(names) - length))
        if same >= ALIKE * (len(names) - length):
            return length
    return 0


def steps_begin(names: Sequence[object]) -> int:
    """How many collectives come before the first step. In a job's start ranks are apart by how long each took to
    begin, and sums of sizes that do not come again hide the steps behind them: a young recorder still holds it."""
    step = of_a_step(names[len(names) // 2 :])
    whole = (REPEATS - 1) * step
    clean = (at for at in range(len(names) // 2) if names[at : at + whole] == names[at + step : at + step + whole])
    return next(clean, 0) if step else 0


def rounds(group: GroupTimes) -> list[tuple[int, int]]:
    """Stretches of collectives, from and to, before each of which all ranks have waited for all, as far as times tell:
    in the last one of a stretch every rank came later than any rank came to the one before it."""
    step = of_a_step(group.names) or 1
    ends = [at + 1 for at, (now, after) in enumerate(pairwise(group.came)) if min(after) >= max(now)]
    rounds_seen: list[tuple[int, int]] = []
    begin = 0
    for end in [*ends, len(group.came)]:
        if end - begin >= step:
            rounds_seen.append((begin, end))
            begin = end
    return rounds_seen
