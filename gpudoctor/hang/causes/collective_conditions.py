"""Ranks part for a reason that is not at the line where they part: an exception that some of them have had, a condition
in what one of them has called, a part of a library that is for the first rank only, or what their models compute."""

from collections.abc import Iterator, Sequence

from gpudoctor.hang.causes import LIKELY, SEEN, HangCause, HangJob, Rank, blame
from gpudoctor.hang.causes.collective_divergence import left_early
from gpudoctor.hang.causes.collective_rounds import under_condition
from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.doing import in_file
from gpudoctor.hang.loops import is_of_data
from gpudoctor.hang.parted import (
    Parted,
    condition_below,
    group_of,
    handler_of_one,
    parted,
    returned,
    swallowed,
)
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.rank_conditions import asks_for
from gpudoctor.hang.relation import fork_of, number_in, own_guard, passes_by, source_at
from gpudoctor.hang.rivals import weighed
from gpudoctor.hang.words import at, stacks_of, statement_seen, waiting_words, where_line, who
from gpudoctor.knowledge.place_markers import ONLY_FIRST, is_program
from gpudoctor.knowledge.places import main_thread
from gpudoctor.snapshot.evidence import Frame
from gpudoctor.sure import BEST


def in_handler(job: HangJob) -> Iterator[HangCause]:
    """An exception on some ranks only: they wait where it is caught, the others where it was not raised."""
    for pair in parted(job):
        if (handled := handler_of_one(pair)) is None:
            continue
        ranks, handler = handled.ranks, handled.handler
        yield blame(
            "uneven-inputs" if is_of_data(handler) else "rank-divergent-decision",
            LIKELY if handled.further_in else SEEN,
            ranks,
            f"{waiting_words(ranks)}, where an exception is caught that the others did not have (except "
            f"{handler.text}, line {handler.line}); {waiting_words(handled.others)}",
            (*stacks_of(ranks), *stacks_of(handled.others), statement_seen(handled.source, handler)),
            at=where_line(handled.source, handler),
        )


def further_in(job: HangJob) -> Iterator[HangCause]:
    """At two collectives of one group, with nothing around the lines at which they part: a condition in what one of
    them has called tells."""
    if progress_of(job).away:
        return  # whom some of them wait for, in a group that their lines do not name, may come yet
    for pair in parted(job):
        if not _is_open(pair):
            continue
        one, other = pair.waiting, pair.other
        small, large = (other, one) if len(other) <= len(one) else (one, other)
        for left, stays in ((small, large), (large, small)):
            if (condition := condition_below(left, stays)) is not None:
                yield from weighed(pair, [under_condition(condition, left, stays, ())])
                break
        else:
            if (early := returned(one, other, own_counts=True)) is not None:
                yield from weighed(pair, [left_early(early, ())])


def _is_open(pair: Parted) -> bool:
    """Whether the lines at which two parties part leave open why they wait in two collectives."""
    one, other = pair.waiting, pair.other
    if pair.relation in ("past the loop", "other branch", "same line") or group_of(one[0]) != group_of(other[0]):
        return False
    if {one[0].place.kind, other[0].place.kind} != {"collective"}:
        return False
    fork = fork_of(one[0], other[0])
    guards = (own_guard(source) for source in (fork.one_source, fork.other_source)) if fork is not None else ()
    if fork is None or any(guard is not None and not only_counts(guard.text) for guard in guards):
        return False
    source = fork.one_source
    if source is not None and is_program(source.file) and passes_by(source):
        return False
    return handler_of_one(pair) is None and swallowed(one, other) is None and returned(one, other) is None


def in_thread(job: HangJob) -> Iterator[HangCause]:
    """A collective in a thread that the main one waits for, where another rank has no such thread: what fails in a
    thread ends it without a word."""
    if progress_of(job).away:
        return
    for pair in parted(job):
        for ranks, others in ((pair.other, pair.waiting), (pair.waiting, pair.other)):
            begun = ranks[0].place.user_frames[-1:] if ranks[0].acting and ranks[0].place.kind == "collective" else ()
            if not begun or any(_runs(rank, begun[0]) for rank in others):
                continue
            yield blame(
                "thread-wait",
                BEST,
                ranks,
                f"{waiting_words(ranks)}, in a thread that the main one waits for; {who(others, 'has', 'have')} none "
                f"in {begun[0].function}: it has failed there, or was not started; {waiting_words(others)}",
                (*stacks_of(ranks), *stacks_of(others)),
                at=ranks[0].place.user_frame,
            )


def _runs(rank: Rank, begun: Frame) -> bool:
    """Whether one of its threads is in a function."""
    threads = rank.evidence.samples[-1].threads if rank.evidence.samples else ()
    own = begun.file, begun.function
    return any((frame.file, frame.function) == own for thread in threads for frame in thread.frames)


def for_the_first(job: HangJob) -> Iterator[HangCause]:
    """A collective below a part of a library that only the first rank comes to."""
    for pair in parted(job):
        for ranks, others in ((pair.other, pair.waiting), (pair.waiting, pair.other)):
            if any(_for_the_first(rank) for rank in others) or ranks[0].place.kind != "collective":
                continue
            if (part := _for_the_first(ranks[0])) is not None:
                frame = ranks[0].place.user_frame
                yield blame(
                    "rank0-only-collective",
                    SEEN,
                    ranks,
                    f"{who(ranks, 'waits', 'wait')} in {ranks[0].place.operation or 'a collective'}{at(frame)}, called "
                    f"by {part.function}{at(part)}, to which only the first rank comes; {waiting_words(others)}",
                    (*stacks_of(ranks), *stacks_of(others)),
                    at=frame,
                )


def _for_the_first(rank: Rank) -> Frame | None:
    """The frame of a library on its stack that is there on the first rank only."""
    frames = _frames(rank)
    return next(
        (frame for frame in frames if any(in_file([frame], file, function) for file, function in ONLY_FIRST)), None
    )


def _frames(rank: Rank) -> Sequence[Frame]:
    thread = main_thread(rank.evidence.samples[-1], rank.thread) if rank.evidence.samples else None
    return thread.frames if thread is not None else ()


def graphs_differ(job: HangJob) -> Iterator[HangCause]:
    """In the backward pass of one line, in different collectives: what they compute there is not the same."""
    for pair in parted(job):
        one, other = pair.waiting[0], pair.other[0]
        if one.place.user_frame is None or one.place.user_frame != other.place.user_frame:
            # A call of a sharded model behind, its forward waits where the others have come to their backward.
            if all(map(_of_shards, (one, other))) and (once_more := _once_more(job, one)) is not None:
                yield once_more
            continue
        if one.place.operation == other.place.operation or not all(map(_in_backward, (one, other))):
            continue
        small, large = (
            (pair.other, pair.waiting) if len(pair.other) <= len(pair.waiting) else (pair.waiting, pair.other)
        )
        if (once_more := _once_more(job, one)) is not None:
            yield once_more
            continue
        yield blame(
            "rank-dependent-graph",
            LIKELY,
            small,
            f"{waiting_words(small)}; {waiting_words(large)}, all in the backward pass of this line: their models have "
            "not run the same layers",
            (*stacks_of(small), *stacks_of(large)),
            at=small[0].place.user_frame,
        )


def _once_more(job: HangJob, rank: Rank) -> HangCause | None:
    """A forward that some ranks make besides that of all: from there on they are a call of the model behind."""
    context = source_at(rank, rank.place.user_frame)
    for call in context.forwards if context is not None else ():
        ranks = [each for each in job.ranks if asks_for(call.asks, number_in(call.asks, each))]
        if context is None or not ranks or len(ranks) * 2 > len(job.ranks):
            continue
        parties = [party for pair in parted(job) for party in (pair.waiting, pair.other)]
        return blame(
            "rank0-only-collective",
            LIKELY,
            ranks,
            f"{who(ranks, 'calls', 'call')} the model once more than the others, in line {call.line} (if {call.text}); "
            + "; ".join(dict.fromkeys(map(waiting_words, parties))),
            (*(line for party in parties for line in stacks_of(party)), statement_seen(context, call)),
            at=Frame(context.function, context.file, call.line),
        )
    return None


def _of_shards(rank: Rank) -> bool:
    """Whether it waits for parameters or gradients of a sharded model."""
    return any("torch/distributed/fsdp/" in frame.file for frame in _frames(rank))


def _in_backward(rank: Rank) -> bool:
    return in_file(_frames(rank), "torch/autograd/graph.py", "_engine_run_backward")


RULES = (in_handler, further_in, in_thread, for_the_first, graphs_differ)
