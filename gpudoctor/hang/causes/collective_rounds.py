"""What the rounds of a loop tell of ranks that wait at two lines: a loop or data begun anew, or with other numbers; a
call that did not make its collective everywhere."""

from collections.abc import Iterator, Sequence

from gpudoctor.hang.causes import LIKELY, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.gpus import uses_gpu
from gpudoctor.hang.parted import Again, Condition, condition_below, parted, share_a_loop
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.relation import (
    COUNTED,
    LOOPS,
    fork_of,
    frames_within,
    goes_round,
    group_argument,
    guard_apart,
    source_at,
    waits_with_a_root,
)
from gpudoctor.hang.variables import first_numbers, rounds_apart
from gpudoctor.hang.words import line_of, ranks_of, stacks_of, statement_seen, waiting_words, where_line, who
from gpudoctor.snapshot.evidence import Enclosing, Frame
from gpudoctor.sure import BEST


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
    if (own := condition_below(stays, gone)) is not None:
        return under_condition(own, stays, gone, recorded, LIKELY)
    inside = filter(None, (source_at(stays[0], frame) for frame in reversed(frames_within(stays[0], call)[:-1])))
    ways = [(way, source) for source in inside for way in goes_round(source, stays[0]) if way.kind == "continue"]
    way, source = ways[0] if len(ways) == 1 else (None, None)
    told = f" by `continue` in line {way.line} ({way.text})".replace(" ()", "") if way is not None else ""
    return blame(
        "rank-divergent-decision",
        LIKELY,
        gone if len(gone) <= len(stays) else stays,
        f"{waiting_words(stays)}, in what line {call.line} calls; in the same round "
        f"{who(gone, 'has', 'have')} come past that line without{told}; {waiting_words(gone)}",
        (*stacks_of(stays), *stacks_of(gone), *recorded),
        at=where_line(source, way) if source is not None and way is not None else call,
    )


def under_condition(
    condition: Condition,
    left: Sequence[Rank],
    stays: Sequence[Rank],
    recorded: Sequence[Seen],
    sure: float = SEEN,
) -> HangCause:
    """Some wait under a condition, and the others have found it otherwise."""
    guard, source = condition
    under = f"under `{guard.kind} {guard.text}` in line {guard.line}"
    if guard.kind == "cache":
        under = f"in a function whose result is remembered (`{guard.text}`, line {guard.line})"
    return blame(
        "rank-divergent-decision",
        sure,
        left if len(left) <= len(stays) else stays,
        f"{waiting_words(left)}, {under}; {waiting_words(stays)}",
        (*stacks_of(left), *stacks_of(stays), statement_seen(source, guard), *recorded),
        at=where_line(source, guard, left[0]),
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


def came_past(job: HangJob) -> Iterator[HangCause]:
    """Some wait in a round that others have come past: these have not made what no loop inside of it makes, whatever
    counts the steps there. Only of what nobody leaves before all have come, and whose line is where the rank is."""
    if progress_of(job).away:
        return  # others may wait for whom a group of some ranks waits for there
    for pair in parted(job):
        apart = rounds_apart((pair.waiting[0], pair.other[0]))
        if apart is None:
            continue
        behind, ahead = (pair.waiting, pair.other) if apart.behind == pair.waiting[:1] else (pair.other, pair.waiting)
        fork = fork_of(ahead[0], behind[0])
        if fork is None or not _meets_all(behind[0]) or _in_inner_loop(behind[0], fork.other, apart.loop):
            continue
        guard = guard_apart(fork.other_source, fork.one_source)
        own = Condition(guard, fork.other_source) if guard is not None and fork.other_source is not None else None
        if own is not None and only_counts(own.statement.text):
            own = condition_below(behind, ahead) or own
        under, seen = "", tuple[Seen, ...]()
        if own is not None:
            under = f", under `{own.statement.kind} {own.statement.text}` in line {own.statement.line},"
            seen = (statement_seen(own.source, own.statement),)
        low, high = apart.rounds
        yield blame(
            "rank-divergent-decision",
            BEST,
            behind if len(behind) < len(ahead) else ahead,
            f"{waiting_words(behind)}{under} with {apart.counter} {low} in the loop of line {apart.loop.line}, and "
            f"{who(ahead, 'has', 'have')} come to {high} without it; {waiting_words(ahead)}",
            (*stacks_of(behind), *stacks_of(ahead), *seen),
            at=where_line(own.source, own.statement) if own is not None else fork.other,
        )


def iterates_anew(job: HangJob) -> Iterator[HangCause]:
    """Some wait where data begin to be gone over (a sampler whose `__iter__` agrees with all on a seed), and the others
    are not there: these have more data, for nothing around the two lines leads any of them there."""
    if progress_of(job).away:
        return
    for pair in parted(job):
        for ranks, others in ((pair.waiting, pair.other), (pair.other, pair.waiting)):
            fork = fork_of(others[0], ranks[0])
            if fork is None or _begins(others[0], fork.one) is not None or not share_a_loop(ranks[0], others[0]):
                continue
            begun = _begins(ranks[0], fork.other)
            guard = guard_apart(fork.other_source, fork.one_source)
            if begun is None or guard is not None or condition_below(ranks, others) is not None:
                continue
            yield blame(
                "uneven-inputs",
                BEST,
                ranks if len(ranks) <= len(others) else others,
                f"{waiting_words(ranks)}, where {line_of(begun)} begins to go over its data; {waiting_words(others)}, "
                "which are not through with theirs",
                (*stacks_of(ranks), *stacks_of(others)),
                at=begun,
            )


def _begins(rank: Rank, frame: Frame) -> Frame | None:
    """The line of the program that has Python call an `__iter__` in which a rank is, further in than a frame of it."""
    inner = frames_within(rank, frame)
    named = [number for number, each in enumerate(inner[:-1]) if each.function.rpartition(".")[2] == "__iter__"]
    return next((each for each in inner[named[-1] + 1 :] if each in rank.place.user_frames), None) if named else None


_BLOCKS = ("barrier", "monitored_barrier", "all_gather_object")


def _meets_all(rank: Rank) -> bool:
    """Whether it waits in a collective of all that no rank leaves before, nor goes on while a GPU computes it."""
    context = source_at(rank, rank.place.user_frame)
    named = context is None or group_argument(context.text)
    if rank.place.kind != "collective" or named or waits_with_a_root(rank):
        return False
    return rank.place.operation in _BLOCKS or not uses_gpu(rank.evidence, rank.node)


def _in_inner_loop(rank: Rank, frame: Frame, loop: Enclosing) -> bool:
    """Whether a loop is around where a rank waits, inside of the one that counts: how often that goes round, its data
    may tell."""
    for inner in frames_within(rank, frame):
        source = source_at(rank, inner)
        for around in source.enclosing if source is not None else ():
            if around == loop:
                return False
            if around.kind in LOOPS and COUNTED.search(around.text) is None:
                return True
    return False


RULES = (begun_apart, came_past, iterates_anew)
