"""Ranks that NCCL waits for, and which say themselves that they waited elsewhere: in a collective over gloo, for a
group that they make, for a key of the store.

A rank that is asked for its recorder and has nothing open in NCCL is no slow one, if it ends by an exception out of a
wait that needs the others: these stood in NCCL's collective by then, and none of them came.
"""

from collections.abc import Sequence

from msgspec import structs

from gpudoctor.explain.absent import idle_ranks
from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import Spoken, ranks_text
from gpudoctor.explain.order import Facts
from gpudoctor.explain.waits import ONE_SIDED, Wait, said, shown_by
from gpudoctor.sure import HINT, LIKELY, SEEN

OVER_GLOO = "gloo-"
FOR_A_KEY = "store-wait-timeout"


def stood_elsewhere(waits: Sequence[Wait], in_nccl: Sequence[Wait], tracebacks: Sequence[Spoken]) -> list[Wait]:
    """Where ranks that had nothing open in NCCL waited, by the tracebacks of theirs that come out of gloo or a store.

    `waits`: of all ranks, by any backend. `in_nccl`: those that NCCL's watchdogs tell."""
    stacks = {
        traceback.told.rank: traceback.first
        for traceback in tracebacks
        if any(event.symptom.id.startswith((OVER_GLOO, FOR_A_KEY)) for event in traceback.events)
    }
    known = {wait.rank for wait in in_nccl}
    return [
        structs.replace(wait, function=stacks[wait.rank].collective, frames=stacks[wait.rank].own)
        for wait in waits
        if wait.rank not in known and wait.rank in stacks and wait.where
    ]


def elsewhere(stood: Sequence[Wait], in_nccl: Sequence[Wait]) -> list[Candidate]:
    """Some wait in a collective over NCCL, and others in one over another backend: they have parted."""
    if not stood or not any(wait.sequence is not None for wait in in_nccl):
        return []
    first = min(in_nccl, key=lambda wait: wait.moment.line)
    few = list(stood) if len(stood) <= len(in_nccl) else list(in_nccl)
    ranks = [wait.rank for wait in stood]
    summary = (
        f"{ranks_text([wait.rank for wait in in_nccl])} waited in {said(first)}, and {ranks_text(ranks)} meanwhile in "
        f"{said(stood[0])}, which does not go over NCCL"
    )
    alone = ranks == [0] and stood[0].operation in ONE_SIDED
    causes = ("rank0-only-collective", "rank-divergent-decision") if alone else ("rank-divergent-decision",)
    return [
        shown_by(cause, HINT if number else LIKELY, first, summary, few, [*stood, *in_nccl])
        for number, cause in enumerate((*causes, "uneven-inputs"))
    ]


def key_of_nobody(in_nccl: Sequence[Wait], tracebacks: Sequence[Spoken], facts: Facts) -> list[Candidate]:
    """A rank of which the program itself has asked the store for a key, while all others stood in a collective: none of
    them could set it any more."""
    waiting = {wait.rank for wait in in_nccl}
    if not waiting or not any(wait.sequence is not None for wait in in_nccl):
        return []
    for traceback in tracebacks:
        rank = traceback.told.rank
        asked = next((event for event in traceback.events if event.symptom.id == FOR_A_KEY), None)
        of_program = traceback.first.file == traceback.first.innermost and not traceback.first.collective
        if asked is None or rank is None or rank in waiting or not of_program:
            continue
        others = (set(range(facts.world_size)) if facts.world_size else facts.ranks | waiting) - {rank}
        all_wait = others <= waiting and rank in idle_ranks(facts) | {rank}
        first = min(in_nccl, key=lambda wait: wait.moment.line)
        key = asked.values.get("key", "")
        summary = (
            f"rank {rank} waited for the key {key} of the store at {traceback.first.file}:{traceback.first.at}, which "
            f"nobody had set, while {ranks_text(waiting)} waited in {said(first)}"
        )
        wait = Wait(rank=rank, moment=traceback.told.moment, line=traceback.told.at)
        sure = SEEN if all_wait else LIKELY
        return [shown_by("store-key-missing", sure, first, summary, [wait], [wait, *in_nccl])]
    return []
