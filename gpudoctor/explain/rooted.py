"""Collectives with a root end on a rank before all have come: who is past such a one has made it.

    rank 0 waits in gather 8, rank 2 in all_reduce 8, rank 1 in all_reduce 9

Rank 1 has given its part of the gather; the gather waits for rank 2, which has left it out.
"""

from collections.abc import Sequence

from msgspec import structs

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import ranks_text
from gpudoctor.explain.waits import Wait, candidate, said
from gpudoctor.sure import HINT, LIKELY

ENDS_EARLY = ("gather", "gatherobject", "reduce", "broadcast", "broadcastobjectlist", "scatter")
"""What may have ended on a rank before another one has come to it."""


def as_they_came(waits: Sequence[Wait]) -> list[Wait]:
    """Where ranks stand at the least number in a collective of this kind, those that are past it are told to stand
    there too: it keeps them, with all that they have called since."""
    rooted, past, _ = _parties(waits)
    if not rooted or not past:
        return list(waits)
    place = structs.replace(rooted[0], timed_out=True)
    return [structs.replace(place, rank=wait.rank, line=wait.line) if wait in past else wait for wait in waits]


def left_out(waits: Sequence[Wait]) -> list[Candidate]:
    """Ranks that call at its number what the others call behind it."""
    rooted, past, odd = _parties(waits)
    calls = {(wait.operation, wait.elements, wait.where) for wait in odd}
    if not rooted or len(calls) != 1 or not any((wait.operation, wait.elements, wait.where) in calls for wait in past):
        return []
    summary = (
        f"{ranks_text([wait.rank for wait in odd])} waited in {said(odd[0])}, which {ranks_text([past[0].rank])} has "
        f"called behind the {rooted[0].operation}; {ranks_text([wait.rank for wait in rooted])} waited in "
        f"{said(rooted[0])}: it was left out"
    )
    return [
        candidate("rank-divergent-decision", LIKELY, odd[0], summary, odd, [*odd, *rooted]),
        candidate("collective-order-mismatch", HINT, odd[0], summary, odd, [*odd, *rooted]),
    ]


def _parties(waits: Sequence[Wait]) -> tuple[list[Wait], list[Wait], list[Wait]]:
    """Who waits in the collective that ends early, who is past it, and who is at its number in something else."""
    numbers = [wait.sequence for wait in waits if wait.sequence is not None]
    if not numbers or len({wait.group for wait in waits if wait.group}) > 1:
        return [], [], []
    first = [wait for wait in waits if wait.sequence == min(numbers)]
    rooted = [wait for wait in first if wait.operation in ENDS_EARLY]
    past = [wait for wait in waits if wait.sequence is not None and wait not in first]
    return rooted, past, [wait for wait in first if wait not in rooted]
