"""Some ranks are past a loop in which others wait: what the loop goes over, what leads out of it, and what variables
of those that have left say to it."""

from collections.abc import Collection, Iterator, Sequence

from gpudoctor.hang.causes import LIKELY, POSSIBLE, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.causes.collective_divergence import (
    divergent,
    guarded_away,
    left_early,
    of_recorders,
    rank_guard,
)
from gpudoctor.hang.causes.collective_rounds import under_condition
from gpudoctor.hang.causes.point_to_point import waits_for_exchange
from gpudoctor.hang.loops import holds, how_ended, is_of_data, loops_left
from gpudoctor.hang.parted import Condition, Parted, condition_below, handler_of_one, parted, returned, share_a_loop
from gpudoctor.hang.relation import (
    LOOPS,
    caught_around,
    goes_round,
    is_within,
    keeps_gradients,
    loop_around,
    own_sources,
    passed_loop,
    passes_by,
    source_at,
)
from gpudoctor.hang.rivals import weighed
from gpudoctor.hang.variables import held_at, in_one_round, last_round
from gpudoctor.hang.words import (
    line_of,
    place_words,
    stacks_of,
    statement_seen,
    still_in,
    verb,
    waiting_words,
    where,
    where_line,
    who,
)
from gpudoctor.hang.written import handed_on
from gpudoctor.knowledge.place_markers import is_program
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext
from gpudoctor.sure import surer


def left_the_loop(job: HangJob) -> Iterator[HangCause]:
    """Some ranks are past the loop in which others wait: they had fewer steps, or left it for a reason of their own."""
    for pair in parted(job):
        yield from weighed(pair, _left_the_loop(job, pair))


def _left_the_loop(job: HangJob, pair: Parted) -> Iterator[HangCause]:
    if pair.relation != "past the loop" or handler_of_one(pair) is not None:
        return
    stays, left = pair.waiting, pair.other
    if waits_for_exchange(stays[0]):
        return  # a loop over handles ends as soon as its own are done
    if rank_guard(stays[0], job) is not None or guarded_away(left, job):
        return
    context = _loop_source(stays[0], left[0])
    recorded = of_recorders(job, left)
    another_round = share_a_loop(stays[0], left[0]) and not in_one_round(stays[0], left[0])
    condition = condition_below(left, stays) if another_round else None
    if context is None or loop_around(context) is None:
        yield from _without_loop(stays, left, recorded, condition)
        return
    loops = loops_left(stays[0], left[0], context)
    exits = passes_by(context, further_out=len(loops) > 1)  # of a loop that it is still in, it has taken no way out
    counted = last_round(stays[0], left[0], loops[0])
    now, last = counted or (0, 0)
    # Who went round as often as the others have, by its counter, has passed what they wait in by; who did not, has
    # left before, and has not.
    rounds = goes_round(context, stays[0]) if last >= now else []
    ways = [each for each in exits if each.kind in ("break", "return")]
    leaves = _taken(left[0], context, [each for each in ways if last >= now or each.line > context.line])
    inside = [rank for rank in job.ranks if is_within(rank, context, loops[0])]
    through = len(job.ranks) - len(inside) if len(inside) >= len(stays) else len(left)
    few = left if through <= max(len(inside), len(stays)) else stays
    asks = asks_of(job)
    ended = how_ended(loops, None if is_program(context.file) else bool(asks))
    early = returned(stays, left)
    if early is not None and (early.stays is not stays or (ended.cause == "uneven-inputs" and ended.sure > POSSIBLE)):
        early = None  # how often it has gone round, its data tells
    # What goes round has made fewer collectives, and is missed in the last rounds only; what leaves, in any.
    if rounds and (counted is not None or not leaves or is_of_data(leaves[0])):
        yield divergent(left, stays, context, rounds[0], surer(SEEN) if recorded else SEEN, recorded)
    elif leaves:
        own, sure = leaves
        if is_of_data(own):
            yield _fewer_rounds("uneven-inputs", sure, few, stays, left, loops[0], context, recorded)
        else:
            line = asked_for(own, asks)
            yield divergent(left, stays, context, own, surer(sure) if recorded else sure, recorded, line)
    elif (caught := caught_around(context)) is not None:
        ending = asked_for(ended.loop, asks) if not is_program(context.file) else None
        yield divergent(left, stays, context, caught, LIKELY, recorded, ending)
    elif early is not None:
        yield left_early(early, recorded)
    sure = POSSIBLE
    if not rounds and not leaves and early is None and caught_around(context) is None and condition is None:
        told = LIKELY if counted is not None and last < now and not ended.alike else POSSIBLE  # fewer rounds
        sure = max(told, ended.sure) if not recorded or ended.sure == POSSIBLE else surer(ended.sure)
    elif leaves and condition is None and ended.cause == "uneven-inputs" and leaves[1] == LIKELY:
        sure = POSSIBLE
    if ended.cause == "uneven-inputs" and _may_be_a_call_apart(job, counted):
        sure = min(sure, POSSIBLE)
    keeps = keeps_gradients(source_at(stays[0], stays[0].place.user_frame))
    if ended.alike and keeps is not None and stays[0].place.kind == "backward":
        # After as many rounds fewer gradients have been sent: only there may a rank have kept its own.
        yield divergent(left, stays, context, keeps, LIKELY, recorded)
    elif condition is not None and not rounds:
        # What they wait in may be what the others have found needless, a round ahead of them.
        yield under_condition(condition, left, stays, recorded, SEEN if ended.alike else LIKELY)
    elif ended.alike and not rounds and not leaves and (own_one := condition_below(stays, left)) is not None:
        # All have gone round as often: what keeps some is what the others have found otherwise.
        yield under_condition(own_one, stays, left, recorded, LIKELY)
        sure = POSSIBLE
    # How often a library has called a function that it was given is no matter of what that goes over.
    given = _handed_on(stays[0], context) if ended.alike else None
    asked = asked_for(ended.loop, asks) if not is_program(context.file) else None
    yield _fewer_rounds(ended.cause, sure, few, stays, left, ended.loop, context, recorded, given, asked)


def asks_of(job: HangJob) -> set[tuple[str, str]]:
    """By what the program asks a framework's loop to end, each with its file: what a framework sets itself is no wish
    of the program's."""
    every = ((own.file, each) for rank in job.ranks for own in own_sources(rank) for each in own.ends_loops)
    return {ask for ask in every if is_program(ask[0])}


def asked_for(statement: Enclosing, asks: Collection[tuple[str, str]]) -> Frame | None:
    """The line by which the program has a framework's loop end: the only one that this statement asks for; of a loop
    that asks by another name, as `not self.done`, the only one at all."""
    named = [own for own in asks if own[1].partition(":")[0] in statement.text]
    if len(found := named or [*(asks if statement.kind in LOOPS else ())]) != 1:
        return None
    ((file, asked),) = found
    line = asked.rpartition(":")[2]
    return Frame("", file, int(line)) if line.isdecimal() else None


def _handed_on(stays: Rank, context: SourceContext) -> Frame | None:
    own = (each for each in stays.place.user_frames if (each.file, each.line) == (context.file, context.line))
    return next(filter(None, (handed_on(stays, each) for each in own)), None)


def _may_be_a_call_apart(job: HangJob, counted: tuple[int, int] | None) -> bool:
    """Whether who has left a loop may have had as many rounds as the others, and be a collective ahead or behind: by
    its counters it has, or they do not tell, and the program's objects ask all ranks where no call is written."""
    if counted is not None:
        now, last = counted
        return last >= now
    return any(source.unwritten for rank in job.ranks for source in own_sources(rank))


def _taken(left: Rank, context: SourceContext, leaves: Sequence[Enclosing]) -> tuple[Enclosing, float] | None:
    """Which of the ways out of a loop a rank has taken, and how sure that is: its variables say it, or nothing speaks
    against it. None where they speak against all."""
    values = next((held_at(left, frame) for frame in left.place.user_frames if frame.function == context.function), {})
    verdicts = [(holds(each.text, values), each) for each in leaves]
    taken = next((each for verdict, each in verdicts if verdict), None)
    if taken is not None:
        return taken, SEEN
    open_ones = [each for verdict, each in verdicts if verdict is None]
    return (open_ones[0], LIKELY) if open_ones else None


def _without_loop(
    stays: Sequence[Rank], left: Sequence[Rank], recorded: Sequence[Seen], condition: Condition | None
) -> Iterator[HangCause]:
    if condition is not None:
        yield under_condition(condition, left, stays, recorded)
    yield _fewer_rounds("uneven-inputs", POSSIBLE if condition else LIKELY, left, stays, left, None, None, recorded)


def _fewer_rounds(
    cause: str,
    sure: float,
    culprits: Sequence[Rank],
    stays: Sequence[Rank],
    left: Sequence[Rank],
    loop: Enclosing | None,
    context: SourceContext | None,
    recorded: Sequence[Seen],
    given: Frame | None = None,
    asked: Frame | None = None,
) -> HangCause:
    """Some have left a loop that they went round more seldom than the others."""
    line = where_line(context, loop, stays[0]) if context is not None and loop is not None else None
    around = () if context is None or loop is None else (statement_seen(context, loop),)
    return blame(
        cause,
        sure,
        culprits,
        still_in(stays, left, loop)
        if culprits is stays
        else f"{who(left, 'is', 'are')} through with the loop"
        + (f" at line {loop.line}" if loop is not None else "")
        + (f" of {context.file.rpartition('/')[2]}" if context is not None and not is_program(context.file) else "")
        + (f", as {line_of(asked)} asks," if asked is not None else "")
        + f" and {verb(left, 'stands', 'stand')} {place_words(left[0].place)}; {waiting_words(stays)}",
        (*stacks_of(left), *stacks_of(stays), *around, *recorded),
        at=asked or given or line or where(culprits[0].place.user_frame),
    )


def _loop_source(stays: Rank, left: Rank) -> SourceContext | None:
    """What the program says around the line at which the ranks part, or else around the innermost line in a loop."""
    if (passed := passed_loop(stays, left)) is not None:
        return passed
    for frame in stays.place.user_frames:
        context = source_at(stays, frame)
        if loop_around(context) is not None:
            return context
    return None


RULES = (left_the_loop,)
