"""What the rounds of a loop tell of ranks that wait at two lines: a loop that is begun anew, or with other numbers; a
call that did not make its collective everywhere."""

from collections.abc import Iterator, Sequence

from gpudoctor.hang.causes import LIKELY, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.parted import Again, parted
from gpudoctor.hang.relation import source_at
from gpudoctor.hang.variables import first_numbers
from gpudoctor.hang.words import ranks_of, stacks_of, statement_seen, waiting_words, who
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


def begun_apart(job: HangJob) -> Iterator[HangCause]:
    """Ranks that have begun a loop with unlike numbers, and go on to the same one: in a round of one number they have
    made unlike many, and what is made every so many rounds does not meet (`for epoch in range(start, 100)`)."""
    for pair in parted(job):
        one, other = pair.waiting[0], pair.other[0]
        if (begun := first_numbers(one, other)) is None or (context := source_at(one, begun.frame)) is None:
            continue
        few, many = sorted((pair.waiting, pair.other), key=len)
        own, theirs = begun.numbers
        told = f"{begun.name} = {own} on {ranks_of(pair.waiting)}, {theirs} on {ranks_of(pair.other)}"
        yield blame(
            "rank-divergent-decision",
            SEEN,
            few,
            f"the loop of line {begun.loop.line} was begun with {told}; {waiting_words(few)}; {waiting_words(many)}",
            (
                *stacks_of(few),
                *stacks_of(many),
                statement_seen(context, begun.loop),
                Seen(f"variables of {begun.frame.function}", told),
            ),
            at=Frame(context.function, context.file, begun.loop.line),
        )


RULES = (begun_apart,)
