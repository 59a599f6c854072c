"""What the rounds of a loop tell of ranks that wait at two lines: a loop that is begun anew, or with other numbers; a
call that did not make its collective everywhere."""

import ast
from collections.abc import Iterator, Sequence

from gpudoctor.hang.causes import LIKELY, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.conditions import parsed
from gpudoctor.hang.parted import Again, parted
from gpudoctor.hang.rank_conditions import RANK_WORDS
from gpudoctor.hang.relation import source_at
from gpudoctor.hang.variables import common_loops, held_at, levels_of
from gpudoctor.hang.words import ranks_of, stacks_of, statement_seen, waiting_words, who
from gpudoctor.snapshot.evidence import Enclosing, Frame


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
        for level in levels_of((one, other)):
            frame = level[one.rank]
            values = [held_at(rank, level[rank.rank]) for rank in (one, other)]
            for loop in common_loops((one, other), level):
                name = _first_number(loop)
                numbers = [own.get(name, "") for own in values]
                context = source_at(one, frame)
                if numbers[0] == numbers[1] or not all(map(str.isdecimal, numbers)) or context is None:
                    continue
                few, many = sorted((pair.waiting, pair.other), key=len)
                told = f"{name} = {numbers[0]} on {ranks_of(pair.waiting)}, {numbers[1]} on {ranks_of(pair.other)}"
                yield blame(
                    "rank-divergent-decision",
                    LIKELY,  # that they stand apart for that, and for nothing else, is not seen
                    few,
                    f"the loop of line {loop.line} was begun with {told}; {waiting_words(few)}; {waiting_words(many)}",
                    (
                        *stacks_of(few),
                        *stacks_of(many),
                        statement_seen(context, loop),
                        Seen(f"variables of {frame.function}", told),
                    ),
                    at=Frame(context.function, context.file, loop.line),
                )
                return


def _first_number(loop: Enclosing) -> str:
    """ "start" of `for epoch in range(start, 100)`: where the last number is a setting, and no end of a rank's own."""
    call = parsed(loop.text.partition(" in ")[2])
    if loop.kind != "for" or not isinstance(call, ast.Call) or ast.unparse(call.func) != "range" or len(call.args) < 2:
        return ""
    first, last = call.args[:2]
    own_end = isinstance(last, ast.Name) and not last.id.isupper()
    if not isinstance(first, ast.Name) or RANK_WORDS.search(first.id) or own_end or isinstance(last, ast.BinOp):
        return ""
    return first.id


RULES = (begun_apart,)
