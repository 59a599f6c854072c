"""A thread that keeps Python's lock inside native code: no other thread of the process runs Python."""

from collections.abc import Iterator

from gpudoctor.hang.causes import POSSIBLE, PROVED, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.words import and_waiting, at, process_of, ranks_of
from gpudoctor.knowledge.places import place_of
from gpudoctor.snapshot.evidence import Thread

MOST_NAMED = 8


def owner_of(rank: Rank) -> tuple[Thread, Thread] | None:
    """The thread that has the lock in both samples, where it is one and its Python stack has not changed."""
    samples = rank.evidence.samples
    if len(samples) < 2:
        return None
    first = {thread.id: thread for thread in samples[0].threads if thread.owns_gil}
    for thread in samples[-1].threads:
        before = first.get(thread.id)
        if thread.owns_gil and before is not None and before.frames == thread.frames and thread.frames:
            return before, thread
    return None


def gil(job: HangJob) -> Iterator[HangCause]:
    """Whoever sleeps in the kernel and owns the lock cannot be in Python code: the interpreter gives it up before
    every call of its own that may sleep. That is native code that kept it. An owner that computes may be in a loop of
    Python as well."""
    progress = progress_of(job)
    if progress.verdict == "moves":
        return
    asleep: list[tuple[Rank, Thread]] = []
    computes: list[tuple[Rank, Thread]] = []
    for rank in job.ranks:
        if (samples := owner_of(rank)) is None:
            continue
        before, now = samples
        unmoved = before.switches is not None and before.switches == now.switches
        sleeps = now.state in ("S", "D") and before.state in ("S", "D")
        (asleep if sleeps and unmoved else computes).append((rank, now))
    if asleep:
        yield _keeps(job, asleep, PROVED, "keeps Python's lock (GIL) while it sleeps in native code")
    elif computes and progress.verdict == "stuck":
        yield _keeps(job, computes, POSSIBLE, "has kept Python's lock (GIL) on one line in two looks")


def _keeps(job: HangJob, owners: list[tuple[Rank, Thread]], sure: float, words: str) -> HangCause:
    ranks = [rank for rank, _ in owners]
    frame = place_of(owners[0][1]).user_frame or ranks[0].place.user_frame
    return blame(
        "gil-deadlock",
        sure,
        ranks,
        f"{ranks_of(ranks)}: a thread {words}{at(frame)}{and_waiting(progress_of(job).waiting, ranks)}"
        + (" (the first of them)" if len(ranks) > 1 else ""),
        [
            Seen(
                f"{process_of(rank)} thread {owner.id} {owner.name}".rstrip(),
                f"owns the GIL in both looks, state {owner.state}"
                + (f", waits in {owner.waits_in}" if owner.waits_in else "")
                + at(place_of(owner).user_frame),
            )
            for rank, owner in owners[:MOST_NAMED]
        ],
        at=frame,
    )


RULES = (gil,)
