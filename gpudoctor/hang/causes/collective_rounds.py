"""What the rounds of a loop tell of ranks that wait at two lines: a loop that is begun anew, a call that did not make
its collective everywhere."""

from collections.abc import Sequence

from gpudoctor.hang.causes import LIKELY, HangCause, Rank, Seen, blame
from gpudoctor.hang.parted import Again
from gpudoctor.hang.words import stacks_of, statement_seen, waiting_words, who
from gpudoctor.snapshot.evidence import Frame


def begun_again_words(again: Again, recorded: Sequence[Seen]) -> HangCause:
    ranks, others, loop, source, rounds = again
    return blame(
        "rank-divergent-decision",
        LIKELY,
        ranks,
        f"{waiting_words(ranks)}, above the loop of line {loop.line} in which the others have gone round {rounds} "
        f"times: {who(ranks, 'has', 'have')} begun it anew, by what has called {source.function.rpartition('.')[2]}; "
        f"{waiting_words(others)}",
        (*stacks_of(ranks), *stacks_of(others), statement_seen(source, loop), *recorded),
        at=ranks[0].place.user_frame,
    )


def made_by_one(stays: Sequence[Rank], gone: Sequence[Rank], call: Frame, recorded: Sequence[Seen]) -> HangCause:
    """One call has made a collective on some ranks, and in the same round none on others."""
    return blame(
        "rank-divergent-decision",
        LIKELY,
        gone if len(gone) <= len(stays) else stays,
        f"{waiting_words(stays)}, in what line {call.line} calls; in the same round "
        f"{who(gone, 'has', 'have')} come past that line without; {waiting_words(gone)}",
        (*stacks_of(stays), *stacks_of(gone), *recorded),
        at=call,
    )


RULES = ()
