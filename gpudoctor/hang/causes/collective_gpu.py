"""Everybody waits in the same collective: what can be behind it, as alternatives and the test that decides."""

from collections.abc import Iterator

from gpudoctor.hang.causes.training_away import parties
from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.progress import progress_of, uses_gpu
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.words import confirm_for, fix_for, numbers_of, stacks_of, waiting_words, where


def together(job: Job) -> Iterator[HangCause]:
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
    if gpu:
        yield from _on_gpus(job, waiting, evidence)
    if not same:
        yield _alternative(
            "shape-mismatch", 0.3, waiting, evidence, "tensors of different sizes would look the same from outside"
        )
        yield _alternative(
            "collective-order-mismatch", 0.3, waiting, evidence, "different tensors or groups would look the same"
        )


def _on_gpus(job: Job, waiting: list[Rank], evidence: tuple[Seen, ...]) -> Iterator[HangCause]:
    agreement = job.agreement
    split = agreement.first if agreement is not None else None
    first = split is not None and split.sequence <= 1
    groups = {group.key for rank in waiting if rank.evidence.recorder for group in rank.evidence.recorder.groups}
    shared = max(
        (sum(1 for rank in waiting if rank.node is node) for node in {id(n): n for n in job.nodes}.values()), default=0
    )
    if shared > 1 and len(job.nodes) == 1:
        yield _alternative(
            "p2p-acs-iommu", 0.45 if first else 0.3, waiting, evidence, "GPU to GPU traffic may be held by the IOMMU"
        )
        yield _alternative("gpu-driver-p2p-bug", 0.3 if first else 0.2, waiting, evidence, "or by the driver")
    if len(groups) > 1:
        yield _alternative(
            "concurrent-communicators", 0.35, waiting, evidence, f"{len(groups)} process groups are in use"
        )
    yield _alternative("nccl-bug", 0.25, waiting, evidence, "every rank has launched it")


def _alternative(cause: str, confidence: float, ranks: list[Rank], evidence: tuple[Seen, ...], note: str) -> HangCause:
    return HangCause(
        cause=cause,
        confidence=confidence,
        ranks=numbers_of(ranks),
        where=where(ranks[0].place.user_frame),
        evidence=evidence,
        summary=f"{waiting_words(ranks)}; {note}",
        fix=fix_for(cause),
        confirm=confirm_for(cause),
    )


def straggler(job: Job) -> Iterator[HangCause]:
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
    yield HangCause(
        cause="straggler",
        confidence=0.4,
        ranks=(rank.rank,),
        where=where(rank.place.user_frame),
        evidence=stacks_of([rank]),
        summary=f"rank {rank.rank} was the last in both looks; {waiting_words(progress.waiting)}",
        fix=fix_for("straggler"),
        confirm=confirm_for("straggler"),
    )


RULES = (together, straggler)
