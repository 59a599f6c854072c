"""Ranks wait for each other in the creation of process groups: some have created one that others have not."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpudoctor.hang.evidence import Enclosing
from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.relation import RANK_WORDS, source_at
from gpudoctor.hang.report import Cause, Seen
from gpudoctor.hang.words import (
    confirm_for,
    fix_for,
    numbers_of,
    process_of,
    ranks_of,
    stack_of,
    verb,
    waiting_words,
    where,
)

CREATES = ("new_group", "new_subgroups", "new_subgroups_by_enumeration", "split_group")
MOST_NAMED = 4


def groups_of_some(job: Job) -> Iterator[Cause]:
    """All wait in new_group, which every rank of the job has to call as often, and in the same order.

    gloo listens with one socket more for each group that a rank has begun, so a rank that has left one out has fewer.
    A condition on the rank around a call of new_group says where.
    """
    progress = progress_of(job)
    waiting = list(progress.waiting)
    if progress.away or progress.stopped or progress.ended or len(waiting) < 2 or job.missing:
        return
    if any(rank.place.operation not in CREATES for rank in waiting) or set(progress.motions) != {"still"}:
        return
    by_listeners: defaultdict[int, list[Rank]] = defaultdict(list)
    for rank in waiting:
        by_listeners[sum(socket.state == "LISTEN" for socket in rank.evidence.sockets)].append(rank)
    guards = _guarded_creations(waiting[0])
    if len(by_listeners) < 2 and not guards:
        return
    parties = sorted(by_listeners.items(), key=lambda each: (len(each[1]), each[0]))
    culprits = parties[0][1] if len(parties) > 1 else waiting
    confidence = (0.85 if len(parties) > 1 else 0.6) if guards else 0.6
    frame = culprits[0].place.user_frame
    evidence = [stack_of(rank) for rank in culprits[:MOST_NAMED]]
    told = ""
    if len(parties) > 1:
        evidence += [
            Seen(f"{process_of(ranks[0])} sockets", f"{ranks_of(ranks)}: {count} listen")
            for count, ranks in parties[:MOST_NAMED]
        ]
        has = verb(culprits, "has", "have")
        told = f"; {ranks_of(culprits)} {has} begun another number of groups than the others"
    if frame is not None:
        evidence += [Seen(f"{frame.file}:{each.line}", f"{each.kind} under {each.text}") for each in guards]
    guard = f"; `{guards[0].kind}` in line {guards[0].line} is only called where {guards[0].text}" if guards else ""
    yield Cause(
        cause="collective-order-mismatch",
        confidence=confidence,
        ranks=numbers_of(culprits),
        where=where(frame),
        evidence=tuple(evidence),
        summary=f"{waiting_words(waiting)}{told}{guard}",
        fix=fix_for(
            "collective-order-mismatch",
            "Call new_group on every rank of the job, also on those that are no members of the group, and in the same "
            "order everywhere.",
        ),
        confirm=confirm_for("collective-order-mismatch"),
    )


def _guarded_creations(rank: Rank) -> Sequence[Enclosing]:
    """Other calls that create groups, in the functions on a rank's stack, under a condition on the rank."""
    found: list[Enclosing] = []
    for frame in rank.place.user_frames:
        context = source_at(rank, frame)
        for call in context.calls if context is not None else ():
            if call.kind in CREATES and call.line != frame.line and RANK_WORDS.search(call.text):
                found.append(call)
    return found[:MOST_NAMED]


RULES = (groups_of_some,)
