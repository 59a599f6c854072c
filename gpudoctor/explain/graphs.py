"""Ranks that FSDP keeps in unlike collectives of one backward pass: other layers have taken part on some of them."""

from collections import Counter
from collections.abc import Sequence

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import ranks_text
from gpudoctor.explain.waits import Wait, candidate, said
from gpudoctor.sure import HINT, LIKELY


def unlike_graphs(waits: Sequence[Wait]) -> list[Candidate]:
    """Its hooks gather and scatter one layer after the other in the order in which the graph calls them, so the number
    is alike, and what stands there is not. A step left out whole would be met at its first layer, and fit."""
    calls = Counter((wait.operation, wait.elements) for wait in waits)
    if len(calls) < 2 or not all(wait.in_backward for wait in waits) or len({wait.sequence for wait in waits}) != 1:
        return []
    rare = calls.most_common()[-1][0]
    odd = [wait for wait in waits if (wait.operation, wait.elements) == rare]
    rest = next(wait for wait in waits if wait not in odd)
    summary = (
        f"{ranks_text([wait.rank for wait in odd])} waited in {said(odd[0])}, rank {rest.rank} in {said(rest)}: hooks "
        "of FSDP have started both in a backward pass, in which other layers take part on one than on the other"
    )
    first = min(waits, key=lambda wait: wait.moment.line)
    return [
        candidate("rank-dependent-graph", LIKELY, first, summary, odd, list(waits)),
        candidate("rank-divergent-decision", HINT, first, summary, odd, list(waits)),
    ]
