"""Who is measured with whom in a round of `isolate.Isolation`: disjoint pairs that were not measured before."""

from collections.abc import Collection, Sequence

Pair = tuple[int, int]


def pair_of(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def adjacent(nodes: Sequence[int]) -> list[Pair]:
    """Neighbours; the last one of an odd number is left out."""
    return [pair_of(one, other) for one, other in zip(nodes[::2], nodes[1::2], strict=False)]


def round_robin(nodes: int) -> list[list[Pair]]:
    """Rounds in which everyone meets everyone once (the circle method); an odd number leaves one out of each."""
    seats = list(range(nodes + nodes % 2))
    rounds = []
    for _ in seats[1:]:
        facing = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        rounds.append(sorted(pair_of(one, other) for one, other in facing if nodes not in (one, other)))
        seats[1:] = [seats[-1], *seats[1:-1]]
    return rounds


def matched(
    suspects: Sequence[int], helpers: Sequence[int], before: Collection[Pair]
) -> tuple[list[Pair], list[int], list[int]]:
    """Pair suspects with helpers, the first of both first; also the suspects and the helpers that are left over."""
    free = list(helpers)
    pairs, left = [], []
    for suspect in suspects:
        helper = next((one for one in free if pair_of(suspect, one) not in before), None)
        if helper is None:
            left.append(suspect)
            continue
        free.remove(helper)
        pairs.append(pair_of(suspect, helper))
    return pairs, left, free


def among_themselves(nodes: Sequence[int], before: Collection[Pair]) -> list[Pair]:
    """Pair the nodes with one another in their order; as few as can be are left out."""
    pairs: list[Pair] = []
    left: list[int] = []
    waiting = list(nodes)
    while waiting:
        one = waiting.pop(0)
        other = next((other for other in waiting if pair_of(one, other) not in before), None)
        if other is None:
            left.append(one)
            continue
        waiting.remove(other)
        pairs.append(pair_of(one, other))
    while len(left) > 1 and _exchange(pairs, left, before):
        pass
    return pairs


def _exchange(pairs: list[Pair], left: list[int], before: Collection[Pair]) -> bool:
    """Break up one pair so that two of those left over find partners; whether that could be done."""
    one, other = left[:2]
    for index, (first, second) in enumerate(pairs):
        for mine, its in ((first, second), (second, first)):
            made = [pair_of(one, mine), pair_of(other, its)]
            if not any(pair in before for pair in made):
                pairs[index : index + 1] = made
                del left[:2]
                return True
    return False
