"""Ranks wait in different places of the program: who has left the common way, and where."""

from collections.abc import Iterator, Sequence

from msgspec import structs

from gpudoctor.hang.causes import HINT, LIKELY, POSSIBLE, PROVED, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.causes.collective_rounds import begun_again_words, made_by_one, under_condition
from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.courses import words as collective_words
from gpudoctor.hang.extra_calls import alone_in_the_loop
from gpudoctor.hang.parted import (
    COLLECTIVE,
    Parted,
    Passed,
    begun_again,
    called_behind,
    calls_back,
    chosen_at,
    comes_by,
    condition_below,
    handler_of_one,
    inside_a_call,
    is_complete,
    lies,
    may_have_given,
    parted,
    returned,
    standing_of,
    sure_of_group,
    swallowed,
    tried_again,
    under_another,
    went_round,
)
from gpudoctor.hang.progress import progress_of, same_place, serves
from gpudoctor.hang.rank_conditions import admits, condition_of, is_by_rank
from gpudoctor.hang.relation import (
    branches_part,
    fork_of,
    goes_round,
    group_argument,
    guard_apart,
    guards_of,
    keeps_gradients,
    never_meet,
    number_in,
    own_guard,
    passes_by,
    source_at,
    told_frames,
)
from gpudoctor.hang.rivals import alike_on_both, ways_apart, weighed
from gpudoctor.hang.variables import in_one_round, rounds_apart
from gpudoctor.hang.words import (
    at,
    entry_words,
    ranks_of,
    stacks_of,
    standing_words,
    statement_seen,
    waiting_words,
    where_line,
    who,
)
from gpudoctor.knowledge.place_markers import is_program
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext
from gpudoctor.sure import BEST, less_sure

ORDER = "collective-order-mismatch"


def guarded(job: HangJob) -> Iterator[HangCause]:
    """A collective under a condition on the rank that not all ranks meet, and that no other line pairs with."""
    if (standing := standing_of(job)) is None:
        return
    progress, waiting, away = standing
    if serves(progress):
        return  # the others wait for what the first rank of a server passes on
    if len(waiting) + len(away) < 2 and not (progress.ended or progress.stopped or job.missing):
        return
    for party in waiting:
        if party[0].place.kind == "backward":
            continue
        guard = rank_guard(party[0], job)
        if guard is None:
            continue
        statement, context, sure = guard
        if not all(any(told == context for _, told in told_frames(rank)) for rank in party):
            continue  # others have come to the same line by another way
        if any(_in_other_branch(context, other[0]) for other in waiting if other is not party):
            continue  # both branches have their collectives: within_the_loop tells how they differ
        # Who is in the other branch may be on the way to its half of it.
        most = BEST if any(_in_other_branch(context, other[0]) for other in away) else PROVED
        admitted = [(admits(statement, number_in(condition_of(statement), rank)), rank) for rank in job.ranks]
        let_in = [rank for lets, rank in admitted if lets is True]
        if is_complete(party, let_in):
            continue
        culprits = party
        if let_in and len(let_in) * 2 > len(job.ranks):
            culprits = [rank for lets, rank in admitted if lets is False]
            if not culprits:
                continue  # whom it keeps out, something else than the rank decides
        others = [rank for group in (*waiting, *away) if group is not party for rank in group]
        frame = party[0].place.user_frame
        decorates = statement.text.startswith("@")  # it is no statement of its own at which ranks part
        yield blame(
            "rank0-only-collective",
            min(sure, most, sure_of_group(party, others)),
            culprits,
            f"{who(party, 'waits', 'wait')} in {party[0].place.operation or 'a collective'}{at(frame)}, "
            f"which only {who(let_in or party, 'reaches', 'reach')} "
            f"({'' if decorates else f'{statement.kind} '}{statement.text}, line {statement.line})"
            + (f"; {_where_they_are(others)}" if others else ""),
            (
                *stacks_of(party),
                statement_seen(context, statement),
                *stacks_of(others),
                *of_recorders(job, party),
            ),
            at=where_line(context, statement) if is_program(context.file) and not decorates else frame,
        )


def rank_guard(rank: Rank, job: HangJob) -> tuple[Enclosing, SourceContext, float] | None:
    """The condition that keeps other ranks from where a rank waits; None where another line may pair with it."""
    for guard in guards_of(rank):
        if all(comes_by(each, guard.frame, rank) for each in job.ranks):
            continue  # all have come this way
        statement, context = guard.statement, guard.source
        verdicts = {admits(statement, number_in(condition_of(statement), each)) for each in job.ranks}
        world = {admits(statement, number) for number in range(min(job.world_size, 4))}
        if verdicts | world == {True}:
            continue
        if _pairs(context, statement, rank.place.operation):
            return None
        return statement, context, SEEN if None in verdicts else PROVED  # by what else it asks, it may let others in
    return None


def _in_other_branch(context: SourceContext, other: Rank) -> bool:
    """Whether another rank waits below the other branch of a condition around a line."""
    return any(
        branches_part(context, source)
        for source in other.evidence.sources
        if (source.file, source.function) == (context.file, context.function)
    )


def _pairs(context: SourceContext, statement: Enclosing, operation: str) -> bool:
    """Whether the function calls the same operation under another condition on the rank: the other branch, or the
    second half of "let one rank go first"; or a function of its own there that leads to collectives, where the other
    ranks have no such call of their own beside it."""
    led = {(call.kind, call.text) for call in context.leads_to}
    for call in (*context.calls, *context.leads_to):
        if call.line == context.line or (call.kind != operation and call in context.calls):
            continue
        if call in context.leads_to and led & {(call.kind, f"not ({call.text})"), (call.kind, call.text[5:-1])}:
            continue
        own = f"not ({statement.text})" if statement.kind == "else" else statement.text
        if call.text != own and is_by_rank(call):
            return True
    return False


def _where_they_are(ranks: Sequence[Rank]) -> str:
    first = [rank for rank in ranks if same_place(rank.place, ranks[0].place)]
    more = len(ranks) - len(first)
    return standing_words(first) + (f", {more} more elsewhere" if more else "")


def guarded_away(left: Sequence[Rank], job: HangJob) -> bool:
    """Whether those that left wait in a collective that only they reach: `guarded` names that."""
    return left[0].place.kind in COLLECTIVE and rank_guard(left[0], job) is not None


def divergent(
    culprits: Sequence[Rank],
    stays: Sequence[Rank],
    context: SourceContext,
    line: Enclosing,
    sure: float,
    recorded: Sequence[Seen],
    given: Frame | None = None,  # the line of the program that decides what a framework's does
) -> HangCause:
    condition = f" ({line.text})" if line.text else ""
    if not is_program(context.file):
        condition += f" of {context.file.rpartition('/')[2]}"
    passes = {
        "continue": f"`continue` in line {line.line}{condition} passes it by",
        "pass": f"an exception that is swallowed in line {line.line}{condition} passes it by",
        "caught": f"an exception that is caught in line {line.line}{condition} leads past it",
        "break": f"`break` in line {line.line}{condition} leads past it",
        "return": f"`return` in line {line.line}{condition} leads past it",
    }.get(line.kind, f"line {line.line}{condition} passes it by")
    return blame(
        "rank-divergent-decision",
        sure,
        culprits,
        f"{who(culprits, 'has', 'have')} not made every {stays[0].place.operation or 'collective'}"
        f"{at(stays[0].place.user_frame)}: {passes}; {waiting_words(stays)}",
        (*stacks_of(culprits), *stacks_of(stays), statement_seen(context, line), *recorded),
        at=given or where_line(context, line, stays[0], culprits[0]),
    )


def left_early(early: Passed, recorded: Sequence[Seen]) -> HangCause:
    """By a condition above a line some have left its function, and the others have not: the fewer are told."""
    few = early.gone if len(early.gone) <= len(early.stays) else early.stays
    rooted = not recorded and may_have_given(early.stays, early.gone)  # which of several has left it out, is not seen
    sure = POSSIBLE if rooted else LIKELY
    made = divergent(early.gone, early.stays, early.source, early.line, sure, recorded)
    return structs.replace(made, ranks=tuple(sorted(rank.rank for rank in few)))


def within_the_loop(job: HangJob) -> Iterator[HangCause]:
    """Ranks wait at different collectives of the same code: by branch, by decision, by order, or past a backward."""
    for pair in parted(job):
        yield from weighed(pair, _within_the_loop(job, pair))


def _within_the_loop(job: HangJob, pair: Parted) -> Iterator[HangCause]:
    first, other = pair.waiting, pair.other
    past_backward = (
        first[0].place.kind == "backward"
        and pair.relation == "later in the loop"
        and other[0].place.kind in (*COLLECTIVE, "exit")
    )
    if pair.relation == "past the loop" or not (past_backward or other[0].place.kind in COLLECTIVE):
        return
    if handler_of_one(pair) is not None:
        return
    fork = fork_of(first[0], other[0])
    here, there = (fork.one_source, fork.other_source) if fork is not None else (None, None)
    if here is not None and there is not None and branches_part(here, there) and other[0].place.kind in COLLECTIVE:
        yield _order(job, first, other, here, there)
        return
    beside = bool(first[0].acting) is not bool(other[0].acting)  # a thread that one of them has
    apart = fork is None and pair.relation == "unknown" and chosen_at(first[0], other[0]) is None
    if apart and not beside and never_meet(first[0], other[0]):
        # A driver and its workers: no line is common to their stacks, and yet each call is the other's next.
        small, large = (other, first) if len(other) <= len(first) else (first, other)
        yield blame(
            ORDER,
            LIKELY,
            small,
            f"{waiting_words(small)}; {waiting_words(large)}, and neither call can go with the other",
            (*stacks_of(small), *stacks_of(large), *of_recorders(job, small)),
            at=small[0].place.user_frame,
        )
        return
    if rank_guard(first[0], job) is not None or guarded_away(other, job):
        return
    if (passed := swallowed(first, other)) is not None and other[0].place.kind in COLLECTIVE:
        gone, stays, source, line = passed
        yield divergent(gone, stays, source, line, SEEN, of_recorders(job, gone))
        return
    early = returned(first, other)
    if early is not None and other[0].place.kind in COLLECTIVE and not under_another(early):
        yield left_early(early, of_recorders(job, early.gone))
        return
    if (again := begun_again(first, other)) is not None:
        yield begun_again_words(again, of_recorders(job, again.ranks))
        return
    if (tried := tried_again(first, other)) is not None:
        yield divergent(tried.gone, tried.stays, tried.source, tried.line, LIKELY, of_recorders(job, tried.gone))
        return
    if (alone := alone_in_the_loop(job, first, other)) is not None:
        yield alone
        return
    if (first[0].place.kind == "backward") != (other[0].place.kind == "backward"):
        yield from _past_backward(job, pair)
        return
    if other[0].place.kind not in COLLECTIVE:
        return
    context = here or source_at(first[0], first[0].place.user_frame)
    inside = context is not None and not calls_back(first[0], other[0], context)
    around = goes_round(context, first[0]) if context is not None and inside else []
    exits = passes_by(context) if context is not None and inside else ()
    exits = tuple(each for each in exits if each.kind not in ("continue", "pass"))
    around = [each for each in around if went_round(each, first[0], other[0])]
    if one_round := in_one_round(first[0], other[0]):  # by their counters neither has gone round, nor begun anew
        around, exits = [each for each in around if each.kind == "pass"], ()
    recorded = of_recorders(job, other)
    small, large = (other, first) if len(other) <= len(first) else (first, other)
    if context is not None and (around or exits):
        # What goes round may have passed one of the two by; what leaves the loop need not be how they came apart.
        yield divergent(small, large, context, (around or exits)[0], SEEN if around else LIKELY, recorded)
        return
    guard = guard_apart(there, here) or guard_apart(here, there)
    rounds = rounds_apart((first[0], other[0]))
    if rounds is not None and rounds.behind == [first[0]]:  # these have come past the line of those
        guard = guard_apart(here, there) or guard
    if guard is not None and fork is not None and one_round and alike_on_both(guard, fork, first[0], other[0]):
        guard = None
    nobody_away = not progress_of(job).away  # else it may be that one whom a group of some ranks waits for there
    if guard is None and one_round and nobody_away and (call := inside_a_call(first, other)) is not None:
        yield made_by_one(*call, recorded)
        return
    under = f", under `{guard.kind} {guard.text}` in line {guard.line}" if guard is not None else ""
    text = there if guard is not None and there is not None and guard in there.enclosing else here
    statement = (statement_seen(text, guard),) if guard is not None and text is not None else ()
    evidence = (*stacks_of(small), *stacks_of(large), *statement, *recorded)
    # Without a condition around either line, why they are at two of them is open. One on the rank is meant so.
    by_rank = guard is not None and is_by_rank(guard)
    causes = (ORDER,) if by_rank else ("rank-divergent-decision", ORDER)[: 2 if guard is None else 1]
    counts = guard is not None and only_counts(guard.text, text.enclosing if text is not None else ())
    sure = LIKELY if by_rank or counts else SEEN
    if counts and any(ways_apart(first[0], other[0])):
        sure = POSSIBLE  # what counts is alike on all; `collective_ways` names what is not
    rooted = not recorded and (may_have_given(first, other) or may_have_given(other, first))
    for cause in causes:
        yield blame(
            cause,
            POSSIBLE if guard is None or rooted else sure,
            small,
            f"{waiting_words(small)}{under}; {waiting_words(large)}",
            evidence,
            at=where_line(text, guard) if guard is not None and text is not None else small[0].place.user_frame,
        )


def _past_backward(job: HangJob, pair: Parted) -> Iterator[HangCause]:
    """Some wait in backward for gradients that others, which are through with it, have not sent."""
    first, other = pair.waiting, pair.other
    waits_in, left = (first, other) if first[0].place.kind == "backward" else (other, first)
    context = source_at(waits_in[0], waits_in[0].place.user_frame)
    ways = goes_round(context, waits_in[0]) if context is not None else []
    exits = [way for way in ways if went_round(way, waits_in[0], left[0])]
    recorded = of_recorders(job, left)
    if context is not None and exits:
        yield divergent(left, waits_in, context, exits[0], SEEN, recorded)
    evidence = (*stacks_of(left), *stacks_of(waits_in), *recorded)
    keeps = keeps_gradients(context)
    sends = context.hooks if context is not None else ()
    if sends and context is not None:
        yield divergent(left, waits_in, context, sends[0], LIKELY, recorded)
    if keeps is not None and context is not None:
        yield blame(
            "rank-divergent-decision",
            LIKELY,  # that it did so there, nothing shows but that no gradient of its came
            left,
            f"{waiting_words(waits_in)}; {standing_words(left)}, as after a backward whose gradients are kept: "
            f"`with {keeps.text}` in line {keeps.line}",
            (*evidence, statement_seen(context, keeps)),
            at=where_line(context, keeps),
        )
    one_round = in_one_round(waits_in[0], left[0]) and not progress_of(job).away
    if one_round and (call := inside_a_call(left, waits_in)) is not None:
        yield made_by_one(*call, recorded)
        return
    own = condition_below(left, waits_in)
    if own is not None:
        # In one round they have come past the backward, and by no condition of what they wait in.
        apart = rounds_apart((waits_in[0], left[0]))
        known = apart is not None and apart.behind == [left[0]]
        came_by = in_one_round(waits_in[0], left[0]) and not called_behind(waits_in[0], left[0])
        sure = SEEN if known else POSSIBLE if came_by else BEST
        yield under_condition(own, left, waits_in, recorded, sure)
    elif (own := condition_below(waits_in, left)) is not None:  # the backward pass itself is under one
        yield under_condition(own, waits_in, left, recorded)
    how = lies(waits_in[0], left[0])
    # That a gradient is missing, no observation but this says: it may have come here by a round that it has left out.
    past = how == "later in the loop" or (how == "later" and context is not None)
    sure = POSSIBLE if not past else SEEN if recorded else LIKELY
    sure = sure if keeps is None and own is None and not sends else POSSIBLE
    seen = f"{waiting_words(waits_in)}; {standing_words(left)}"
    doubts = [
        ("unused-parameters", less_sure(sure) if exits else sure, "without gradients of all parameters"),
        ("rank-dependent-graph", HINT if sure == POSSIBLE else POSSIBLE, "and the graph may differ from rank to rank"),
    ]
    if sure == POSSIBLE and keeps is None and own is None and not sends:  # it may as well have left the loop
        doubts.append(("uneven-inputs", POSSIBLE, "perhaps with fewer batches"))
    for cause, how_sure, note in doubts:
        of_graph = cause != "uneven-inputs"  # what its backward has lacked, that line has called
        frame = (waits_in if of_graph else left)[0].place.user_frame
        yield blame(cause, how_sure, left, f"{seen}, {note}", evidence, at=frame)


def _order(
    job: HangJob, first: Sequence[Rank], other: Sequence[Rank], here: SourceContext, there: SourceContext
) -> HangCause:
    """Two branches of one condition. Each that calls what the other waits in makes it a matter of order."""
    own, theirs = first[0].place.operation, other[0].place.operation
    direct = here.line == _line(first[0]) and there.line == _line(other[0])
    calls = [call for context in (here, there) for call in context.calls]
    both = (
        own != theirs and sum(call.kind == own for call in calls) > 1 and sum(call.kind == theirs for call in calls) > 1
    )
    led = {(call.kind, call.text) for context in (here, there) for call in context.leads_to}
    both = both or (own != theirs and all(sum(kind == each for kind, _ in led) > 1 for each in (own, theirs)))
    in_groups = own == theirs and group_argument(here.text) != group_argument(there.text)
    recorded = of_recorders(job, other)
    small, large = (other, first) if len(other) <= len(first) else (first, other)
    context = there if small is other else here
    guard = own_guard(context)
    asks_rank = guard is not None and is_by_rank(guard)
    cause = ORDER if both or own == theirs or asks_rank else "rank-divergent-decision"
    # Where the branches call functions that make these calls, the calls are in the right branches: why they do not meet
    # is further in.
    sure = PROVED if both and recorded else SEEN if both or in_groups or direct else POSSIBLE
    if own == theirs and not in_groups:  # a broadcast in both branches, to give and to receive, is how it is done
        sure = HINT
    return blame(
        cause,
        sure,
        small,
        f"{waiting_words(small)}; {waiting_words(large)}: two branches of one condition"
        + (" call them in different orders" if cause == ORDER and own != theirs else "")
        + (", and name different process groups" if in_groups else ""),
        (
            *stacks_of(small),
            *stacks_of(large),
            *((statement_seen(context, guard),) if guard is not None else ()),
            *recorded,
        ),
        at=small[0].place.user_frame,
    )


def _line(rank: Rank) -> int:
    return rank.place.user_frame.line if rank.place.user_frame is not None else 0


def of_recorders(job: HangJob, suspects: Sequence[Rank]) -> tuple[Seen, ...]:
    """What flight recorders say, where it blames the same ranks."""
    split = job.agreement.first if job.agreement is not None else None
    if split is None:
        return ()
    numbers = {rank.rank for rank in suspects}
    if split.kind == "missing" and numbers & set(split.behind):
        text = f"{who(split.behind, 'has', 'have')} not come to "
        text += collective_words(split.parties[0][1]) if split.parties else f"#{split.sequence} in group {split.group}"
        return (Seen("flight recorder", text),)
    if split.kind in ("operation", "shape", "dtype"):
        return tuple(
            Seen(f"flight recorder of {ranks_of(ranks)}", entry_words(entry)) for ranks, entry in split.parties[:3]
        )
    return ()


RULES = (guarded, within_the_loop)
