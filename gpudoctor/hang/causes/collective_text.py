"""All wait, and Python has run ahead of the collectives that keep them: what the program's text and NCCL's counts say.

Where a flight recorder tells which collectives met, `collective_divergence` says more. Without one there are the counts
of RAS (how many of each kind a rank has launched), and the calls in the loop that not all ranks make.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.hang.causes import CAUSES, HINT, LIKELY, POSSIBLE, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.causes.collective_divergence import divergent
from gpudoctor.hang.gpus import uses_gpu
from gpudoctor.hang.own_ras import polls
from gpudoctor.hang.progress import JobProgress, parties, progress_of
from gpudoctor.hang.rank_conditions import asks_for, is_by_rank
from gpudoctor.hang.relation import keeps_gradients, loop_around, members_of, number_in, passes_by, source_at
from gpudoctor.hang.report import ProgramLine
from gpudoctor.hang.words import ranks_of, stacks_of, waiting_words, where_line, who
from gpudoctor.knowledge.place_markers import COLLECTIVES, POINT_TO_POINT
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext

OF_ALL = {*COLLECTIVES.split(), "wait_for_everyone", "gather_for_metrics"}
"""Names that are a collective's whoever has written the function: a program's own save_checkpoint need not be one."""
COUNTED_AS = {
    "all_reduce": "AllReduce",
    "barrier": "AllReduce",
    "broadcast": "Broadcast",
    "broadcast_object_list": "Broadcast",
    "reduce": "Reduce",
    "all_gather": "AllGather",
    "all_gather_object": "AllGather",
    "all_gather_into_tensor": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "reduce_scatter_tensor": "ReduceScatter",
}
SUMS = [name for name, counted in COUNTED_AS.items() if counted == "AllReduce"]
Counts = tuple[tuple[str, int], ...]


def standing(job: HangJob) -> JobProgress | None:
    """Of a job whose ranks all wait on their GPUs, and whose recorders do not tell where they part."""
    told = job.agreement is not None and not job.agreement.unread
    return None if told else all_wait(job)


ON_GPUS = frozenset(("collective", "backward", "cuda sync"))


def all_wait(job: HangJob, kinds: frozenset[str] = ON_GPUS) -> JobProgress | None:
    """Of a job whose ranks all wait on their GPUs."""
    progress = progress_of(job)
    if progress.verdict != "stuck" or progress.away or progress.stopped or progress.ended or job.missing:
        return None
    waiting = progress.waiting
    if len(waiting) < 2 or not all(uses_gpu(rank.evidence, rank.node) for rank in waiting):
        return None
    return progress if all(rank.place.kind in kinds for rank in waiting) else None


def counts_by_group(job: HangJob) -> list[dict[int, Counts]]:
    """Of each group of all ranks, by rank: how many collectives of each kind it has launched, as RAS said last."""
    for answers in polls(job):
        whole = [
            {rank.rank: tuple(sorted((k, n) for k, n in rank.counts.items() if n)) for rank in group.ranks}
            for group in answers[-1].communicators
            if group.size == job.world_size == len(group.ranks)
        ]
        if whole:
            return whole
    return []


def counts_of(job: HangJob) -> dict[int, Counts]:
    """Of the group in which ranks differ, else of the first."""
    groups = counts_by_group(job)
    return next((counts for counts in groups if len(set(counts.values())) > 1), groups[0] if groups else {})


def odd_by_counts(job: HangJob, counts: Mapping[int, Counts]) -> list[Rank]:
    """The ranks whose counts differ from those of more others; [] where there are none, or as many."""
    alike: defaultdict[Counts, list[Rank]] = defaultdict(list)
    for rank in job.ranks:
        alike[counts.get(rank.rank, ())].append(rank)
    small, *others = sorted(alike.values(), key=len)
    return small if others and len(small) < len(others[0]) else []


def counted(counts: Mapping[int, Counts]) -> list[Seen]:
    alike: defaultdict[Counts, list[int]] = defaultdict(list)
    for rank, own in counts.items():
        alike[own].append(rank)
    return [
        Seen("NCCL's RAS", f"{ranks_of(ranks)}: " + ", ".join(f"{number} {kind}" for kind, number in own))
        for own, ranks in list(alike.items())[:4]
    ]


def guarded_calls(job: HangJob) -> Iterator[HangCause]:
    """In the function in which all wait, a collective is called under a condition on the rank, and no other branch
    pairs with it; or both branches call the same ones in different orders."""
    progress = standing(job)
    if progress is None:
        return
    context = _common(progress.waiting)
    if context is None:
        return
    counts = counts_of(job)
    calls = _in_the_loop(context)
    guarded: defaultdict[str, list[Enclosing]] = defaultdict(list)
    for call in calls:
        if is_by_rank(call):
            guarded[call.text].append(call)
    for text, own in guarded.items():
        asked = own[0].asks or text
        let_in = [rank for rank in job.ranks if asks_for(asked, number_in(asked, rank)) is True]
        others = guarded.get(f"not ({text})", [])
        if not let_in or len(let_in) == len(job.ranks) or (text.startswith("not (") and text[5:-1] in guarded):
            continue
        members = next(filter(None, (members_of((context,), name) for name in own[0].gives)), None)
        if members is not None and members <= {rank.rank for rank in let_in}:
            continue  # all of that group come to it
        few = len(let_in) * 2 <= len(job.ranks)
        culprits = let_in if few else [rank for rank in job.ranks if rank not in let_in]
        evidence = (
            *stacks_of(progress.waiting),
            Seen(f"{context.file}:{own[0].line}", f"{own[0].kind} under {text}"),
            *counted(counts),
        )
        if others:
            kinds, other_kinds = [call.kind for call in own], [call.kind for call in others]
            if kinds != other_kinds and sorted(kinds) == sorted(other_kinds):
                yield blame(
                    "collective-order-mismatch",
                    LIKELY,  # the program's text; which of them met is not seen
                    culprits,
                    f"{waiting_words(progress.waiting)}; under `{text}` the order is {', '.join(kinds)}, else "
                    f"{', '.join(other_kinds)}",
                    evidence,
                    at=where_line(context, others[0] if few is False else own[0]),
                )
            continue
        yield blame(
            "rank0-only-collective",
            _how_sure(job, counts, let_in, own[0], len(parties(progress.waiting)) > 1),
            let_in,
            f"only {who(let_in, 'makes', 'make')} the {own[0].kind} of line {own[0].line} ({text}); "
            f"{waiting_words(progress.waiting)}",
            evidence,
            at=where_line(context, own[0]),
        )


def _how_sure(
    job: HangJob, counts: Mapping[int, Counts], let_in: Sequence[Rank], call: Enclosing, apart: bool
) -> float:
    """A group of some ranks may be meant, of one never: that those who make it have counted more of it, or stand
    elsewhere, speaks for it."""
    kind = COUNTED_AS.get(call.kind, "")
    own = {dict(counts.get(rank.rank, ())).get(kind, 0) for rank in let_in}
    others = {dict(counts.get(rank.rank, ())).get(kind, 0) for rank in job.ranks if rank not in let_in}
    if counts and kind and min(own) > max(others):
        return SEEN
    return LIKELY if apart and len(let_in) == 1 else POSSIBLE


def left_out(job: HangJob) -> Iterator[HangCause]:
    """All wait at one line, and NCCL has counted other collectives for one of them: it has gone another way."""
    progress = standing(job)
    counts = counts_of(job) if progress is not None else {}
    if progress is None or len(set(counts.values())) < 2 or len(parties(progress.waiting)) != 1:
        return
    context = _common(progress.waiting)
    odd = odd_by_counts(job, counts)
    if context is None or not odd:
        return
    others = [rank for rank in progress.waiting if rank not in odd]
    exits = [enclosing for enclosing in passes_by(context) if enclosing.kind in ("continue", "pass")]
    recorded = tuple(counted(counts))
    calls = _in_the_loop(context)
    if exits:
        yield divergent(odd, others, context, exits[0], SEEN, recorded)
        return
    frame = odd[0].place.user_frame
    less = _less(counts, odd, others)
    if crossed := _crossed(job, odd, others):
        yield blame(
            "collective-order-mismatch",
            LIKELY,  # by what it has chosen another group first, is not seen
            odd,
            f"{who(odd, 'has', 'have')} made more collectives in one group and fewer in another than "
            f"{ranks_of(others)}, all in all as many; {waiting_words(progress.waiting)}",
            (*stacks_of(progress.waiting), *crossed),
            at=frame,
            fix=CAUSES["collective-order-mismatch"].remedy("crossed"),
        )
        return
    if "" not in less and (pairs := pairs_in_the_loop(context)):
        yield blame(
            "p2p-order",
            LIKELY,  # in the way to what the others have launched lies nothing else that waits for a rank
            odd,
            f"{who(odd, 'has', 'have')} not come to the collective that {ranks_of(others)} made next, behind the "
            f"{pairs[0].kind} of line {pairs[0].line}; {waiting_words(progress.waiting)}",
            (*stacks_of(progress.waiting), *recorded, Seen(f"{context.file}:{pairs[0].line}", pairs[0].kind)),
            at=where_line(context, pairs[0]),
        )
        return
    backward = [call for call in context.calls if call.kind == "backward"]
    always = all(not call.text for call in calls if call.kind in SUMS)
    if less == {"AllReduce"} and len(backward) == 1 and always:
        line = ProgramLine(context.file, backward[0].line, context.function)
        keeps = keeps_gradients(source_at(odd[0], Frame(line.function, line.file, line.line)))
        yield blame(
            "unused-parameters" if keeps is None else "rank-divergent-decision",
            LIKELY,  # what else has been left out is not in this function
            odd,
            f"{who(odd, 'has', 'have')} made fewer all_reduce than {ranks_of(others)} in the same loop, in which only "
            f"backward (line {line.line}) need not make all"
            + (f", under `with {keeps.text}`" if keeps is not None else "")
            + f"; {waiting_words(progress.waiting)}",
            (*stacks_of(progress.waiting), *recorded),
            at=line if frame is None or keeps is not None else frame,
        )
        return
    # As many were launched at a line that all have come to, if they had only been in another order. What some ranks are
    # to call alone may be in a group of its own, which keeps them from the common ones.
    by_rank = any(map(is_by_rank, calls))
    for cause, sure in (
        ("rank-divergent-decision", POSSIBLE if by_rank else LIKELY),
        ("collective-order-mismatch", POSSIBLE if by_rank else HINT),
    ):
        yield blame(
            cause,
            sure,
            odd,
            f"{who(odd, 'has', 'have')} made other collectives than {ranks_of(others)}; "
            f"{waiting_words(progress.waiting)}",
            (*stacks_of(progress.waiting), *recorded),
            at=frame,
        )


def _less(counts: Mapping[int, Counts], odd: Sequence[Rank], others: Sequence[Rank]) -> set[str]:
    """Kinds of which the odd ones have made fewer; with "" where they have made more of another one."""
    own, common = dict(counts[odd[0].rank]), dict(counts[others[0].rank])
    fewer = {kind for kind in {*own, *common} if own.get(kind, 0) < common.get(kind, 0)}
    return fewer | ({""} if any(own[kind] > common.get(kind, 0) for kind in own) else set())


def _crossed(job: HangJob, odd: Sequence[Rank], others: Sequence[Rank]) -> list[Seen]:
    """What RAS has counted in each group, where some have launched more in one and fewer in another than the others."""
    groups = [counts for counts in counts_by_group(job) if len(set(counts.values())) > 1]
    sums = [
        {rank.rank: sum(number for _, number in counts.get(rank.rank, ())) for rank in (*odd, *others)}
        for counts in groups
    ]
    totals = {sum(total[rank.rank] for total in sums) for rank in (*odd, *others)}
    apart = len(sums) > 1 and all(odd_by_counts(job, counts) == odd for counts in groups)
    return [line for counts in groups for line in counted(counts)] if apart and len(totals) == 1 else []


def calls_of(context: SourceContext | None) -> tuple[Enclosing, ...]:
    """Of collectives, in a function itself and through others of the program's."""
    return (*context.calls, *context.leads_to) if context is not None else ()


def pairs_in_the_loop(context: SourceContext) -> list[Enclosing]:
    """Sends and receives of each step."""
    loop = loop_around(context)
    return [
        call
        for call in calls_of(context)
        if call.kind in POINT_TO_POINT.split() and loop is not None and call.line > loop.line
    ]


def _common(waiting: Sequence[Rank]) -> SourceContext | None:
    """What the program says around the innermost line, in a loop, of a function that all are in."""
    functions = [{(frame.file, frame.function) for frame in rank.place.user_frames} for rank in waiting]
    for frame in waiting[0].place.user_frames:
        context = source_at(waiting[0], frame)
        if all((frame.file, frame.function) in own for own in functions) and loop_around(context) is not None:
            return context
    return None


def _in_the_loop(context: SourceContext) -> list[Enclosing]:
    loop = loop_around(context)
    calls = sorted(calls_of(context), key=lambda call: call.line)
    return [call for call in calls if call.kind in OF_ALL and loop is not None and call.line > loop.line]


def only_pairs(job: HangJob) -> Iterator[HangCause]:
    """All wait in a loop whose every step only sends and receives: these do not pair, or it is the way between GPUs."""
    progress = standing(job)
    context = _common(progress.waiting) if progress is not None else None
    if progress is None or context is None or len(set(counts_of(job).values())) > 1:
        return
    if any(not call.text for call in _in_the_loop(context)):
        return  # each step makes a collective
    pairs = pairs_in_the_loop(context)
    if not pairs or any(call.kind == "backward" for call in context.calls):
        return
    yield blame(
        "p2p-order",
        POSSIBLE,
        progress.waiting,
        f"{waiting_words(progress.waiting)}, behind the {pairs[0].kind} of line {pairs[0].line}",
        (*stacks_of(progress.waiting), Seen(f"{context.file}:{pairs[0].line}", pairs[0].kind)),
        at=where_line(context, pairs[0]),
    )


RULES = (guarded_calls, left_out, only_pairs)
