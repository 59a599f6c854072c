"""Sends and receives in flight recorders: who waits for whom, and whether they fit. gloo records none."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal, NamedTuple

from gpudoctor.hang.waits_for import OTHER_END
from gpudoctor.snapshot.evidence import Collective

MOST_PARTIES = 64


class Pairs(NamedTuple):
    """Where the sends and receives of a group stand."""

    kind: Literal["missing", "peer", "shape", "dtype", "none"]
    behind: tuple[int, ...]
    parties: tuple[tuple[tuple[int, ...], Collective], ...]
    waiting: tuple[int, ...]
    unknown: tuple[int, ...]


def pairs(entries: Mapping[int, Sequence[Collective]], forgotten: Mapping[int, bool]) -> Pairs | None:
    """What the unfinished sends and receives of the ranks say together; None when all have completed.

    `entries`: by rank, its sends and receives in their order. `forgotten`: of every rank of the group whose recorder
    was read, whether its ring buffer has lost its beginning.
    """
    unfinished = {
        rank: [entry for entry in collectives if entry.state != "completed" and entry.peer is not None]
        for rank, collectives in entries.items()
    }
    unfinished = {rank: collectives for rank, collectives in unfinished.items() if collectives}
    if not unfinished:
        return None
    begun = {rank: [each for each in own if not _is_behind(each, own)] for rank, own in unfinished.items()}
    waits_for: dict[int, set[int]] = {}
    facing: set[int] = set()
    unfit: list[tuple[Literal["shape", "dtype"], int, Collective, int, Collective]] = []
    unknown: set[int] = set()
    for rank, collectives in unfinished.items():
        for entry in collectives:
            peer = entry.peer
            assert peer is not None
            if peer not in forgotten:
                unknown.add(peer)
                continue
            answer = _first(begun.get(peer, ()), OTHER_END.get(entry.operation, ""), rank)
            if answer is not None:
                if reason := _unfit(entry, answer):
                    unfit.append((reason, rank, entry, peer, answer))
                continue
            if _was_answered(entry, rank, peer, entries, forgotten):
                continue
            waits_for.setdefault(rank, set()).add(peer)
            if _first(unfinished.get(peer, ()), entry.operation, rank) is not None:
                facing |= {rank, peer}
    waiting = tuple(sorted(unfinished))
    behind = {peer for peers in waits_for.values() for peer in peers}
    idle = tuple(sorted(peer for peer in behind if peer not in waits_for))
    shown = waiting
    kind: Literal["missing", "peer", "shape", "dtype", "none"] = "none"
    if facing:
        kind, idle, shown = "peer", (), tuple(sorted(facing))
    elif unfit:
        kind, first, one, second, other = unfit[0]
        return Pairs(kind, (), (((first,), one), ((second,), other)), waiting, tuple(sorted(unknown)))
    elif idle:
        kind = "missing"
        shown = tuple(rank for rank in waiting if waits_for.get(rank, set()) & set(idle)) or waiting
    elif waits_for:
        kind, shown = "peer", tuple(sorted(waits_for))  # everybody waits for somebody who waits: a ring
    return Pairs(
        kind,
        idle,
        tuple(((rank,), unfinished[rank][0]) for rank in shown[:MOST_PARTIES]),
        waiting,
        tuple(sorted(unknown)),
    )


def _is_behind(entry: Collective, entries: Sequence[Collective]) -> bool:
    """Whether it is queued behind one with the same rank that runs: these go one after the other, but for a batch's,
    which run together."""
    before = entries[: next(at for at, each in enumerate(entries) if each is entry)]
    return entry.state == "scheduled" and any(each.state == "started" and each.peer == entry.peer for each in before)


def _first(entries: Sequence[Collective], operation: str, peer: int) -> Collective | None:
    return next((entry for entry in entries if entry.operation == operation and entry.peer == peer), None)


def _unfit(one: Collective, other: Collective) -> Literal["shape", "dtype"] | None:
    """What keeps a send and its receive apart. A receive may be larger only where the library allows it; none does."""
    sizes = [[prod(size) for size in (entry.input_sizes or entry.output_sizes)] for entry in (one, other)]
    if all(sizes) and sizes[0] != sizes[1]:
        return "shape"
    if one.dtypes and other.dtypes and set(one.dtypes) != set(other.dtypes):
        return "dtype"
    return None


def _was_answered(
    entry: Collective,
    rank: int,
    peer: int,
    entries: Mapping[int, Sequence[Collective]],
    forgotten: Mapping[int, bool],
) -> bool:
    """Whether the other end has come and gone already, and this one is about to complete."""
    if forgotten.get(rank) or forgotten.get(peer):
        return False
    own = [
        collective
        for collective in entries[rank]
        if collective.operation == entry.operation and collective.peer == peer
    ]
    opposite = OTHER_END.get(entry.operation, "")
    others = [
        collective
        for collective in entries.get(peer, ())
        if collective.operation == opposite and collective.peer == rank and collective.state == "completed"
    ]
    return len(others) > next(at for at, collective in enumerate(own) if collective is entry)
