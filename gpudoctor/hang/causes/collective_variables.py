"""All wait, no flight recorder tells where they part, and the ranks' own variables do: rounds, decisions, sizes.

Python runs ahead of the GPU, so that the line at which a rank waits is seldom that of the collective that keeps it.
In which round of the loop each rank is, and how many collectives NCCL has counted of each by then, tells more.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.hang.causes import LIKELY, HangCause, HangJob, Rank, Seen, blame, collective_text as text
from gpudoctor.hang.progress import parties
from gpudoctor.hang.relation import COUNTED, LOOPS, WITH_A_ROOT, keeps_gradients, source_at, waits_with_a_root
from gpudoctor.hang.variables import (
    RoundsApart,
    Unlike,
    furthest_behind,
    held_at,
    levels_of,
    own_variables,
    rounds_apart,
    tensor_at,
    unlike,
)
from gpudoctor.hang.words import ranks_of, stacks_of, waiting_words, who
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Frame

_ALIKE = """
all_reduce broadcast reduce all_gather_into_tensor reduce_scatter_tensor all_gather_single all_to_all_single
"""
ALIKE = frozenset(_ALIKE.split())
"""Collectives to which every rank gives as many elements, of one type: an exchange where it tells no parts."""
OVER_DATA = lazy_re(r"load|batch|data|sample|step|iter|shard|file", re.I)
"""A loop of which ranks may have unlike many rounds by their data: over callbacks or layers they are the program's."""


def rounds(job: HangJob) -> Iterator[HangCause]:
    """Some ranks wait a round behind the others, and have launched as many collectives: one more than these had in as
    many rounds."""
    if (progress := text.all_wait(job)) is None or (apart := rounds_apart(progress.waiting)) is None:
        return
    behind, ahead = apart.behind, apart.ahead
    if len(behind) == len(ahead) or len(parties(behind)) > 1 or waits_with_a_root(behind[0]):
        return
    counts = text.counts_of(job)
    if text.standing(job) is None:
        if not _meet_by_recorders(job, apart):
            return
    elif not _has_made_as_many(apart, progress.waiting, counts):
        return
    few = behind if len(behind) < len(ahead) else ahead
    if _has_inner_loop(behind[0], apart):
        cause = "uneven-inputs"
    else:
        cause = (
            "rank0-only-collective"
            if few is behind and [rank.rank for rank in few] == [0]
            else ("rank-divergent-decision")
        )
    yield blame(
        cause,
        LIKELY,
        few,
        f"{waiting_words(behind)}, with {apart.counter} {apart.rounds[0]} in the loop of line {apart.loop.line}, and "
        f"{who(ahead, 'has', 'have')} come to {apart.rounds[1]} without that collective: no more of them have been "
        "counted there",
        (*stacks_of(progress.waiting), *text.counted(counts), *_counters(apart)),
        at=few[0].place.user_frame,
    )


def _meet_by_recorders(job: HangJob, apart: RoundsApart) -> bool:
    """Whether ranks of unlike rounds have come to one number, with unlike operations."""
    met = job.agreement.first if job.agreement is not None else None
    if met is None or met.kind != "operation":
        return False
    by_round = {frozenset(rank.rank for rank in ranks) for ranks in (apart.behind, apart.ahead)}
    return {frozenset(ranks) for ranks, _ in met.parties} == by_round


def _has_made_as_many(apart: RoundsApart, waiting: Sequence[Rank], counts: Mapping[int, text.Counts]) -> bool:
    """Whether NCCL has counted of those behind as many collectives as of those ahead, who make some in each round."""
    sums = {number: sum(launched for _, launched in own) for number, own in counts.items()}
    if not all(sums.get(rank.rank) for rank in waiting) or not _made_in_each(apart, waiting, sums):
        return False
    # else those ahead may have made it as well, and wait in what came behind it
    return max(sums[rank.rank] for rank in apart.ahead) <= min(sums[rank.rank] for rank in apart.behind)


def _made_in_each(apart: RoundsApart, waiting: Sequence[Rank], sums: Mapping[int, int]) -> bool:
    """Whether those ahead have launched a collective in each round up to theirs, under no condition: then they must
    have launched more than who is behind, had these not made another one."""
    level = levels_of(waiting)[-1]
    frame = level[apart.ahead[0].rank]
    context = source_at(apart.ahead[0], frame)
    if context is None or apart.loop not in context.enclosing or text.pairs_in_the_loop(context):
        return False
    for call in context.calls:
        if call.text or not apart.loop.line < call.line < min(level[rank.rank].line for rank in apart.ahead):
            continue
        if call.kind in text.COUNTED_AS:
            return True
        inside = source_at(apart.ahead[0], Frame(context.function, context.file, call.line))
        # DDP and FSDP exchange gradients there: as many as there were rounds have been counted.
        if call.kind == "backward" and keeps_gradients(inside) is None and min(sums.values()) > apart.rounds[0]:
            return True
    return False


def _has_inner_loop(rank: Rank, apart: RoundsApart) -> bool:
    """Whether a rank is in a loop over data inside of the one in which rounds differ: over the batches of an epoch."""
    for frame in rank.place.user_frames:
        context = source_at(rank, frame)
        for around in context.enclosing if context is not None else ():
            if around == apart.loop:
                return False
            if around.kind in LOOPS and COUNTED.search(around.text) is None and OVER_DATA.search(around.text):
                return True
    return False


def _counters(apart: RoundsApart) -> list[Seen]:
    each = zip((apart.behind, apart.ahead), apart.rounds, strict=True)
    return [Seen(f"variables of {ranks_of(ranks)}", f"{apart.counter} = {number}") for ranks, number in each]


def decisions(job: HangJob) -> Iterator[HangCause]:
    """Ranks have parted, and those that differ by place or by NCCL's counts hold a variable unlike all others."""
    progress = text.all_wait(job, text.ON_GPUS | {"point-to-point"})
    met = job.agreement is not None and job.agreement.first is not None and job.agreement.first.kind == "none"
    if progress is None or met:
        return
    waiting = progress.waiting
    found = list(unlike(waiting))
    odd = found[0].odd if found else []
    if not odd or any(each.odd != odd for each in found) or not _differs(job, waiting, odd):
        return
    if [rank.rank for rank in odd] == [0]:
        return  # what rank 0 holds alone may be meant
    first = found[-1]
    others = [rank for rank in waiting if rank not in odd]
    yield blame(
        "rank-divergent-decision",
        LIKELY,
        odd,
        f"{first.name} is {first.own} on {ranks_of(odd)} and {first.common} on {ranks_of(others)}; "
        f"{waiting_words(odd)}; {waiting_words(others)}",
        (*stacks_of(waiting), *(_seen(each, others) for each in found[:4])),
        at=odd[0].place.user_frame if first.frame not in odd[0].place.user_frames else first.frame,
    )


def _seen(variable: Unlike, others: Sequence[Rank]) -> Seen:
    return Seen(
        f"variables of {variable.frame.function}",
        f"{variable.name} = {variable.own} on {ranks_of(variable.odd)}, {variable.common} on {ranks_of(others)}",
    )


def _differs(job: HangJob, waiting: Sequence[Rank], odd: Sequence[Rank]) -> bool:
    """Whether these are the ones that have gone another way, by what else is seen of the ranks."""
    own = set(map(id, odd))
    places = parties(waiting)
    if len(places) > 1 and any(set(map(id, party)) == own for party in places):
        return True
    if set(map(id, text.odd_by_counts(job, text.counts_of(job)))) == own:
        return True
    apart = rounds_apart(waiting)
    if apart is None:
        return set(map(id, furthest_behind(waiting))) == own
    if own in (set(map(id, apart.behind)), set(map(id, apart.ahead))):
        return True
    # Who is no root goes on once it has given its part: one of those ahead has not.
    return all(map(waits_with_a_root, apart.behind)) and own < set(map(id, apart.ahead))


def roots(job: HangJob) -> Iterator[HangCause]:
    """Ranks in one function that take the root of a collective from unlike values: each has another root in mind."""
    if (progress := text.standing(job)) is None:
        return
    inside: dict[tuple[str, str], list[Rank]] = {}
    for rank in progress.waiting:
        if held := own_variables(rank):
            inside.setdefault((held[0].frame.file, held[0].frame.function), []).append(rank)
    for ranks in inside.values():
        context = source_at(ranks[0], own_variables(ranks[0])[0].frame)
        rooted = [each for each in text.calls_of(context) if each.kind in WITH_A_ROOT]
        for call, name in ((each, name) for each in rooted for name in each.root):
            named = {rank.rank: own_variables(rank)[0].values.get(name, "") for rank in ranks}
            values = list(named.values())
            usual = max(values, key=lambda value: (values.count(value), value == "0"))
            odd = [rank for rank in ranks if named[rank.rank] != usual]
            # A number is the root itself; what it is computed from must be unlike on few, and alike on all others.
            computed = not all(map(str.isdecimal, values))
            if not odd or "" in values or (computed and (len(set(values)) > 2 or len(odd) * 2 >= len(ranks))):
                continue
            told = ", ".join(f"{value} on rank {number}" for number, value in list(named.items())[:4])
            yield blame(
                "rank-divergent-decision",
                LIKELY,  # another variable may have told it since
                odd,
                f"{name}, from which {call.kind} in line {call.line} takes its root, is {told}",
                (*stacks_of(progress.waiting), Seen("variables", f"{name}: {told}")),
                at=odd[0].place.user_frame,
            )
            return


def sizes(job: HangJob) -> Iterator[HangCause]:
    """All wait behind one collective, in one round, and what they have given to it is not of one type and size."""
    if (progress := text.standing(job)) is None or len(parties(progress.waiting)) != 1:
        return
    waiting = progress.waiting
    if len(set(text.counts_of(job).values())) > 1 or rounds_apart(waiting) is not None:
        return
    levels = levels_of(waiting, own=True)
    if not levels:
        return
    frame = levels[-1][waiting[0].rank]
    context = source_at(waiting[0], frame)
    calls = [call for call in text.calls_of(context) if call.line <= frame.line]
    last = max(calls, key=lambda call: call.line, default=None)
    if last is None or last.kind not in ALIKE:
        return
    for name in last.gives:
        given = {rank.rank: tensor_at(rank, levels[-1][rank.rank], name) for rank in waiting}
        if None in given.values() or len(set(given.values())) < 2:
            continue
        yield blame(
            "shape-mismatch",
            LIKELY,  # it may have been given another tensor of that name since
            _fewest(given, waiting),
            f"{name}, which is given to {last.kind} in line {last.line}, is not alike on all ranks: "
            + _texts(waiting, frame, name),
            (*stacks_of(waiting), Seen("variables", _texts(waiting, frame, name))),
            at=frame,
        )
        return


def _fewest(given: Mapping[int, object], waiting: Sequence[Rank]) -> list[Rank]:
    """The ranks whose tensor is that of fewer ranks; all of them where none is."""
    values = list(given.values())
    odd = [rank for rank in waiting if values.count(given[rank.rank]) * 2 < len(values)]
    return odd or [*waiting]


def _texts(waiting: Sequence[Rank], frame: Frame, name: str) -> str:
    by_text: dict[str, list[Rank]] = {}
    for rank in waiting:
        by_text.setdefault(held_at(rank, frame).get(name, ""), []).append(rank)
    return ", ".join(f"{value} on {ranks_of(ranks)}" for value, ranks in list(by_text.items())[:4])


RULES = (rounds, decisions, roots, sizes)
