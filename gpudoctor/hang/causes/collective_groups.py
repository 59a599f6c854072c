"""Ranks wait for each other in the creation of process groups, or in two threads of each in one group."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpudoctor.hang.causes import CAUSES, LIKELY, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.gpus import uses_gpu
from gpudoctor.hang.loops import holds
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.rank_conditions import is_by_rank
from gpudoctor.hang.relation import group_argument, relation, source_at
from gpudoctor.hang.report import ProgramLine
from gpudoctor.hang.variables import held_at
from gpudoctor.hang.words import place_words, process_of, ranks_of, stacks_of, verb, waiting_words, where, who
from gpudoctor.knowledge.places import in_collective, place_of
from gpudoctor.snapshot.evidence import Enclosing, Frame, Thread

CREATES = ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")
MOST_NAMED = 4


def groups_of_some(job: HangJob) -> Iterator[HangCause]:
    """All wait in new_group, or are past it: every rank of the job has to call it as often, and in the same order.

    gloo listens with one socket more for each group that a rank has begun, so a rank that has left one out has fewer.
    A condition on the rank around a call of new_group says where.
    """
    progress = progress_of(job)
    waiting = list(progress.waiting)
    if progress.away or progress.stopped or progress.ended or len(waiting) < 2 or job.missing:
        return
    if set(progress.motions) != {"still"}:
        return
    creating = [rank for rank in waiting if rank.place.operation in CREATES]
    past = [rank for rank in waiting if rank.place.operation not in CREATES]
    if past:
        if creating and all(rank.place.kind in ("collective", "backward") for rank in past):
            yield from _past_the_creation(creating, past)
        elif not creating:
            yield from _in_the_first_call(past)
        return
    by_listeners: defaultdict[int, list[Rank]] = defaultdict(list)
    for rank in waiting:
        by_listeners[sum(socket.state == "LISTEN" for socket in rank.evidence.sockets)].append(rank)
    guards = _guarded_creations(waiting[0])
    if len(by_listeners) < 2 and not guards:
        return
    parties = sorted(by_listeners.items(), key=lambda each: (len(each[1]), each[0]))
    culprits = parties[0][1] if len(parties) > 1 else waiting
    frame = culprits[0].place.user_frame
    evidence = [*stacks_of(culprits)]
    summary = waiting_words(waiting)
    if len(parties) > 1:
        evidence += [
            Seen(f"{process_of(ranks[0])} sockets", f"{ranks_of(ranks)}: {count} listen")
            for count, ranks in parties[:MOST_NAMED]
        ]
        summary += f"; {who(culprits, 'has', 'have')} begun another number of groups than the others"
    yield blame(
        "collective-order-mismatch",
        SEEN if guards and len(parties) > 1 else LIKELY,  # the program's text and the sockets, or one of them
        culprits,
        summary + _only_where(guards),
        (*evidence, *_guards_seen(frame, guards)),
        at=frame,
        fix=CAUSES["collective-order-mismatch"].remedy("groups"),
    )


def _past_the_creation(creating: Sequence[Rank], past: Sequence[Rank]) -> Iterator[HangCause]:
    """Some use groups already, and others still wait in the creation of one: what they wait for has another number on
    those, which have left out a group before, or do not create this one at all."""
    if not all(relation(creating[0], rank) in ("later", "later in the loop") for rank in past):
        return
    guards = _guarded_creations(creating[0])
    frame = creating[0].place.user_frame
    place = ProgramLine(frame.file, guards[0].line, frame.function) if guards and frame is not None else where(frame)
    yield blame(
        "collective-order-mismatch",
        SEEN if guards else LIKELY,  # the program's text shows who leaves one out
        past if len(past) <= len(creating) else creating,
        f"{waiting_words(creating)}, which {who(past, 'is', 'are')} past; {waiting_words(past)}{_only_where(guards)}",
        (*stacks_of(creating), *stacks_of(past), *_guards_seen(frame, guards)),
        at=place,
        fix=CAUSES["collective-order-mismatch"].remedy("groups"),
    )


def _in_the_first_call(past: Sequence[Rank]) -> Iterator[HangCause]:
    """With NCCL new_group waits for nobody: the communicator is made in the first call on the group, which blocks until
    all have come to it under the group's number. That is another one where a rank has left out a group before."""
    frame = past[0].place.user_frame
    guards = _guarded_creations(past[0])
    on_gpu = all(uses_gpu(rank.evidence, rank.node) and rank.place.kind == "collective" for rank in past)
    if guards and on_gpu and all(group_argument(_text_at(rank, rank.place.user_frame)) for rank in past):
        yield from _left_out(past, guards[0])
    alike = {rank.place.user_frame for rank in past} == {frame}
    if guards and on_gpu and alike and group_argument(_text_at(past[0], frame)):
        yield blame(
            "collective-order-mismatch",
            LIKELY,  # which ranks the condition keeps out is not followed
            past,
            f"{waiting_words(past)}, in the call itself and not for their GPUs{_only_where(guards)}: its group has not "
            "one number on all ranks",
            (*stacks_of(past), *_guards_seen(frame, guards)),
            at=frame,
            fix=CAUSES["collective-order-mismatch"].remedy("groups"),
        )


def _left_out(past: Sequence[Rank], creation: Enclosing) -> Iterator[HangCause]:
    """Who has left a creation out, by the variables of each rank: there all later groups have another number."""
    answers = {rank.rank: _found_so(rank, creation) for rank in past}
    without = [rank for rank in past if answers[rank.rank] is False]
    if not without or None in answers.values() or len(without) == len(past):
        return
    made = [rank for rank in past if rank not in without]
    frame = without[0].place.user_frame
    yield blame(
        "collective-order-mismatch",
        SEEN,
        without,
        f"{who(without, 'has', 'have')} made one process group fewer{_only_where([creation])}; each group made since "
        f"has another number there, and who meets in one does not find the others: {waiting_words(without)}; "
        f"{waiting_words(made)}",
        (*stacks_of(past), *_guards_seen(frame, [creation])),
        at=frame,
        fix=CAUSES["collective-order-mismatch"].remedy("groups"),
    )


def _found_so(rank: Rank, creation: Enclosing) -> bool | None:
    """Whether a rank's variables say yes to the condition around a creation."""
    frames = (frame for frame in rank.place.user_frames if (own := source_at(rank, frame)) and creation in own.calls)
    return next((holds(creation.text, held_at(rank, frame)) for frame in frames), None)


def _only_where(guards: Sequence[Enclosing]) -> str:
    return f"; `{guards[0].kind}` in line {guards[0].line} is only called where {guards[0].text}" if guards else ""


def _guards_seen(frame: Frame | None, guards: Sequence[Enclosing]) -> list[Seen]:
    return [Seen(f"{frame.file}:{call.line}", f"{call.kind} under {call.text}") for call in guards if frame is not None]


def _guarded_creations(rank: Rank) -> Sequence[Enclosing]:
    """Other calls that create groups, in the functions on a rank's stack, under a condition on the rank."""
    calls: list[Enclosing] = []
    for frame in rank.place.user_frames:
        context = source_at(rank, frame)
        for call in context.calls if context is not None else ():
            if call.kind in CREATES and call.line != frame.line and is_by_rank(call):
                calls.append(call)
    return calls[:MOST_NAMED]


def two_threads(job: HangJob) -> Iterator[HangCause]:
    """Two threads of a rank wait in collectives of one group: which of them comes first is chance, on each rank of its
    own."""
    progress = progress_of(job)
    if progress.verdict != "stuck" or progress.away or progress.stopped or progress.ended:
        return
    acting = [(rank, thread) for rank in progress.waiting if (thread := _beside(rank)) is not None]
    if not acting:
        return
    rank, thread = acting[0]
    other = place_of(thread, rank.evidence.sources)
    groups = {group_argument(_text_at(rank, frame)) for frame in (rank.place.user_frame, other.user_frame)}
    ranks = [rank for rank, _ in acting]
    yield blame(
        "collective-order-mismatch",
        # With GPUs the default group may be two, one for each kind of device, which do not wait for each other.
        SEEN if len(groups) == 1 and not uses_gpu(rank.evidence, rank.node) else LIKELY,
        ranks,
        f"{waiting_words(ranks)}, and another thread of {verb(ranks, 'it', 'each')} waits {place_words(other)}: ranks "
        "need not come to the two in one order",
        (
            *stacks_of(ranks),
            *(
                Seen(f"{process_of(rank)} thread {one.name or one.id}", place_words(place_of(one)))
                for rank, one in acting[:MOST_NAMED]
            ),
        ),
        at=other.user_frame,
        fix=CAUSES["collective-order-mismatch"].remedy("threads"),
    )


def _beside(rank: Rank) -> Thread | None:
    """Another thread of a rank that waits in a collective too, in both looks."""
    samples = rank.evidence.samples
    if rank.place.kind != "collective" or len(samples) < 2:
        return None
    before = {thread.id for thread in samples[0].threads if in_collective(thread)}
    return next(
        (
            one
            for one in samples[-1].threads
            if one.id not in (0, rank.thread) and one.id in before and in_collective(one)
        ),
        None,
    )


def _text_at(rank: Rank, frame: Frame | None) -> str:
    context = source_at(rank, frame)
    return context.text if context is not None else ""


RULES = (groups_of_some, two_threads)
