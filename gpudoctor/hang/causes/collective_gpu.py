"""Everybody waits in the same collective: what can be behind it, as alternatives and the test that decides."""

import re
from collections import Counter
from collections.abc import Iterator

from gpudoctor.hang.causes import HINT, LIKELY, POSSIBLE, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.gpus import uses_gpu
from gpudoctor.hang.progress import parties, progress_of
from gpudoctor.hang.relation import group_argument, loop_around, source_at, waits_with_a_root
from gpudoctor.hang.unalike import given_unalike, words
from gpudoctor.hang.variables import rounds_apart
from gpudoctor.hang.words import stacks_of, statement_seen, waiting_words
from gpudoctor.snapshot.evidence import Frame

Alternative = tuple[str, float, str]
"""Id, how sure, and what speaks for it."""


def together(job: HangJob) -> Iterator[HangCause]:
    """All ranks of the world, and nobody elsewhere, at one line: each alternative with a low confidence."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "unknown") or progress.away or progress.stopped or progress.ended:
        return
    waiting = [rank for rank in progress.waiting if rank.place.kind in ("collective", "backward", "cuda sync")]
    if len(waiting) < 2 or len(waiting) != len(job.ranks) or job.missing or len(parties(waiting)) != 1:
        return
    if progress.verdict == "unknown" and not job.agreement:
        return
    gpu = all(uses_gpu(rank.evidence, rank.node) for rank in waiting)
    agreement = job.agreement
    same = agreement is not None and agreement.first is not None and agreement.first.kind == "none"
    if agreement is not None and not agreement.unread and not same:
        return  # the recorders say who differs, or that nothing is open
    evidence = stacks_of(waiting)
    if same:
        evidence = (*evidence, Seen("flight recorder", "all ranks have come to it with the same sizes"))
    alternatives = list(_on_gpus(job, waiting)) if gpu else []
    if not same and (apart := _given_apart(waiting)) is not None:
        yield apart
        return
    if not same:
        alternatives += [
            ("shape-mismatch", HINT, "tensors of different sizes would look the same from outside"),
            ("collective-order-mismatch", HINT, "different tensors or groups would look the same"),
        ]
    for cause, sure, note in alternatives:
        summary = f"{waiting_words(waiting)}; {note}"
        yield blame(cause, sure, waiting, summary, evidence, at=waiting[0].place.user_frame)


def _given_apart(waiting: list[Rank]) -> HangCause | None:
    """In one round of what is around them, a loop has come to another item on each, and this one is what the call is
    given: they call it in unlike orders."""
    frame = waiting[0].place.user_frame
    context = source_at(waiting[0], frame)
    loop = loop_around(context)
    if frame is None or context is None or loop is None or rounds_apart(waiting) is not None:
        return None
    for name, held in given_unalike(waiting, frame, context.text).items():
        usual = max(map(len, held.values()))
        odd = [
            rank for ranks in held.values() if len(ranks) < usual or len(held) * usual == len(waiting) for rank in ranks
        ]
        chooses = re.search(rf"\b{name}\b", group_argument(context.text)) is not None
        return blame(
            "collective-order-mismatch",
            LIKELY if chooses and not waits_with_a_root(waiting[0]) else POSSIBLE,
            odd,
            f"{waiting_words(waiting)}, each with what its loop of line {loop.line} has come to: {words(name, held)}"
            + (", and by it the process group" if chooses else ""),
            (*stacks_of(waiting), statement_seen(context, loop)),
            at=Frame(context.function, context.file, loop.line),
        )
    return None


def _on_gpus(job: HangJob, waiting: list[Rank]) -> Iterator[Alternative]:
    split = job.agreement.first if job.agreement is not None else None
    first = split is not None and split.sequence <= 1
    groups = {group.key for rank in waiting if rank.evidence.recorder for group in rank.evidence.recorder.groups}
    shared = max(Counter(id(rank.node) for rank in waiting).values(), default=0)
    if shared > 1 and len(job.nodes) == 1:
        # What is wrong between GPUs shows itself in the first collective, and seldom later.
        yield "p2p-acs-iommu", POSSIBLE if first else HINT, "GPU to GPU traffic may be held by the IOMMU"
        yield "gpu-driver-p2p-bug", HINT, "or by the driver"
    if len(groups) > 1:
        sure = HINT if first else POSSIBLE
        yield "concurrent-communicators", sure, f"{len(groups)} process groups are in use"
    yield "nccl-bug", HINT, "every rank has launched it"


def straggler(job: HangJob) -> Iterator[HangCause]:
    """A GPU job that gets on, in which one rank is the last in both looks, and its GPU works while the others wait."""
    progress = progress_of(job)
    if progress.verdict != "moves" or len(job.ranks) < 4 or len(progress.away) != 1:
        return
    rank = progress.away[0]
    if (
        not uses_gpu(rank.evidence, rank.node)
        or rank.first_place.kind != rank.place.kind
        or len(progress.waiting) != len(job.ranks) - 1
    ):
        return
    own = [gpu for gpu in rank.node.gpus if rank.pid in gpu.pids]
    if not own or any((gpu.memory_utilization_percent or 0) == 0 for gpu in own):
        return
    yield blame(
        "straggler",
        POSSIBLE,  # two looks are few
        [rank],
        f"rank {rank.rank} was the last in both looks; {waiting_words(progress.waiting)}",
        stacks_of([rank]),
        at=rank.place.user_frame,
    )


RULES = (together, straggler)
