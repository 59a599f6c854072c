"""A rank is elsewhere while the others wait for it: it sleeps, reads, compiles, waits for data, or computes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.progress import Progress, awaits_work, lets_work, progress_of
from gpudoctor.hang.relation import guards_of
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.words import (
    at,
    confirm_for,
    fix_for,
    line_of,
    numbers_of,
    place_words,
    process_of,
    ranks_of,
    stack_of,
    stacks_of,
    verb,
    waiting_words,
    where,
    without,
)
from gpudoctor.knowledge.places import Place, main_thread, place_of
from gpudoctor.snapshot.evidence import ProcessEvidence

MOST_PARTIES = 32
"""Places at which ranks are elsewhere that are spoken of; the smallest parties first."""
MOST_NAMED = 8
MOVING = 0.5
"""Of a rank that is waited for and gets on with what it does: a long validation, a first compilation, a large file.
It is what the job waits for now, and no hang is shown by it."""


def parties(ranks: Sequence[Rank]) -> list[list[Rank]]:
    """Ranks that are at the same place, the smallest party first."""
    found: defaultdict[object, list[Rank]] = defaultdict(list)
    for rank in ranks:
        found[rank.place.kind, rank.place.operation, rank.place.user_frame].append(rank)
    return sorted(found.values(), key=lambda party: (len(party), party[0].rank))[:MOST_PARTIES]


def holding_up(job: Job) -> tuple[Progress, list[list[Rank]]] | None:
    """The parties that are elsewhere, where that may be what a job waits for."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "held"):
        return None
    return progress, parties(progress.away)


def in_the_kernel(job: Job) -> Iterator[HangCause]:
    """State D in both samples: the kernel waits for storage, or for a device."""
    found = [
        rank
        for rank in job.ranks
        if len(rank.evidence.samples) > 1 and all(sample.state == "D" for sample in rank.evidence.samples)
    ]
    if not found or progress_of(job).verdict == "moves":
        return
    yield _stall(job, found, 0.85, "in the kernel (state D), in both looks")


def storage(job: Job) -> Iterator[HangCause]:
    """An open, a read or a write of a file that does not come back; or one that goes on."""
    if (held := holding_up(job)) is None:
        return
    progress, away = held
    for party in away:
        if party[0].place.kind != "storage":
            continue
        still = [rank for rank in party if rank.moved is False and not _bytes_move(rank)]
        if still and all(rank.state != "D" for rank in still):
            yield _stall(job, still, 0.88, "and nothing has moved between two looks")
        going = [rank for rank in without(party, still) if rank.state != "D"]
        if going and progress.waiting:
            yield _slow(
                progress, going, MOVING, "reads or writes a file", "read or write a file", "its bytes or CPU time move"
            )


def _stall(job: Job, ranks: Sequence[Rank], confidence: float, note: str) -> HangCause:
    progress = progress_of(job)
    waiting = without(progress.waiting, ranks)
    evidence: list[Seen] = []
    for rank in ranks[:MOST_NAMED]:
        evidence.append(stack_of(rank, _kernel_words(rank.evidence)))
    operation = ranks[0].place.operation
    doing = f"stands in {operation}" if operation and ranks[0].place.kind == "storage" else "stands in file access"
    files = [name for rank in ranks[:MOST_NAMED] for name in rank.evidence.open_files[:4]]
    if files:
        evidence.append(Seen(f"{process_of(ranks[0])} open files", ", ".join(files[:6])))
    return HangCause(
        cause="storage-stall",
        confidence=confidence,
        ranks=numbers_of(ranks),
        where=where(ranks[0].place.user_frame),
        evidence=tuple(evidence),
        summary=f"{ranks_of(ranks)} {doing if len(ranks) == 1 else doing.replace('stands', 'stand')}"
        f"{at(ranks[0].place.user_frame)}, {note}" + (f"; {waiting_words(waiting)}" if waiting else ""),
        fix=fix_for("storage-stall"),
        confirm="" if confidence >= 0.9 else confirm_for("storage-stall"),
    )


def _kernel_words(process: ProcessEvidence) -> str:
    """ "waits in fifo_open, openat(...)": what the kernel says of the main thread."""
    if not process.samples:
        return ""
    thread = main_thread(process.samples[-1], process.process.pid)
    if thread is None:
        return ""
    return ", ".join(
        each for each in (f"waits in {thread.waits_in}" if thread.waits_in else "", thread.syscall) if each
    )


def _bytes_move(rank: Rank) -> bool:
    samples = rank.evidence.samples
    if len(samples) < 2:
        return False
    first, last = samples[0], samples[-1]
    return (first.read_bytes, first.written_bytes) != (last.read_bytes, last.written_bytes)


def sleeping(job: Job) -> Iterator[HangCause]:
    """A rank that sleeps and has not woken between the looks, while others wait."""
    if (held := holding_up(job)) is None or not held[0].waiting:
        return
    progress, away = held
    for party in away:
        still = [rank for rank in party if rank.place.kind == "sleep" and rank.moved is False]
        if still:
            yield _slow(progress, still, 0.85, "sleeps", "sleep", "it has not woken between two looks")


def compiling(job: Job) -> Iterator[HangCause]:
    """A rank that compiles, or waits for the lock of one that does."""
    if (held := holding_up(job)) is None or not held[0].waiting:
        return
    progress, away = held
    for party in away:
        if party[0].place.kind == "compile":
            still = all(rank.moved is False for rank in party)
            yield _slow(progress, party, 0.6 if still else MOVING, "compiles", "compile", "")


def computing(job: Job) -> Iterator[HangCause]:
    """A rank in the program's own code. That it alone is there by the program's will makes it the one that is waited
    for; what it does in ordinary code of a step cannot be told from a long step."""
    if (held := holding_up(job)) is None or not held[0].waiting:
        return
    progress, away = held
    for party in away:
        kind = party[0].place.kind
        if kind not in ("user code", "backward", "cuda sync"):
            continue
        guard = next(guards_of(party[0]), None)
        moving = [rank for rank in party if rank.moved is not False or lets_work(rank)]
        doing = "computes" if moving else "stands in the program's own code"
        plural = "compute" if moving else "stand in the program's own code"
        note = ""
        idle = any(map(awaits_work, party))
        confidence = 0.35 if moving else 0.45 if idle else 0.5
        if guard is not None and len(party) * 2 <= len(job.ranks):
            confidence = MOVING if moving else 0.45 if idle else 0.8
            note = f"{line_of(guard.frame)} is under `if {guard.statement.text}` in line {guard.statement.line}"
        yield _slow(progress, party, confidence, doing, plural, note)


def _slow(progress: Progress, ranks: Sequence[Rank], confidence: float, one: str, several: str, note: str) -> HangCause:
    waiting = list(progress.waiting)
    frame = ranks[0].place.user_frame
    return HangCause(
        cause="slow-rank-timeout",
        confidence=confidence,
        ranks=numbers_of(ranks),
        where=where(frame),
        evidence=(
            *stacks_of(ranks, note),
            *stacks_of(waiting),
        ),
        summary=f"{ranks_of(ranks)} {verb(ranks, one, several)}{at(frame)}; {waiting_words(waiting)}",
        fix=fix_for("slow-rank-timeout"),
        confirm=confirm_for("slow-rank-timeout"),
    )


# ---------------------------------------------------------------- data loaders


def data(job: Job) -> Iterator[HangCause]:
    """A rank that waits for its DataLoader: what the workers do decides."""
    if (held := holding_up(job)) is None:
        return
    progress, away = held
    for party in away:
        if party[0].place.kind != "data":
            continue
        stuck: list[tuple[Rank, ProcessEvidence]] = []
        stalled: list[tuple[Rank, ProcessEvidence]] = []
        busy: list[Rank] = []
        for rank in party:
            for worker in rank.data_loaders:
                state = worker_state(worker)
                if state == "locked":
                    stuck.append((rank, worker))
                    break
                if state == "storage":
                    stalled.append((rank, worker))
                    break
                if state == "busy":
                    busy.append(rank)
                    break
        if stuck:
            yield _loader(progress, "dataloader-fork-deadlock", 0.85, stuck, "stands in a lock, with no CPU time used")
        elif stalled:
            yield _loader(progress, "storage-stall", 0.8, stalled, "stands in file access")
        elif busy:
            if progress.waiting:
                yield _slow(progress, busy, MOVING, "waits for a data loader that works", "wait for data loaders", "")
        elif all(rank.data_loaders and rank.moved is False for rank in party):
            pairs = [(rank, rank.data_loaders[0]) for rank in party]
            yield _loader(progress, "dataloader-fork-deadlock", 0.5, pairs, "uses no CPU time")


def worker_state(worker: ProcessEvidence) -> str:
    """ "locked": in a futex without having run; "storage"; "busy"; "idle": it waits for its next index; ""."""
    if len(worker.samples) < 2:
        return ""
    first, last = worker.samples[0], worker.samples[-1]
    thread = main_thread(last, worker.process.pid)
    place: Place = place_of(thread)
    if last.state == "D" or place.kind == "storage":
        return "storage"
    if first.cpu_seconds is not None and last.cpu_seconds is not None and last.cpu_seconds - first.cpu_seconds >= 0.05:
        return "busy"
    if thread is None:
        return ""
    names = {frame.function for frame in thread.frames[:3]}
    if "futex" in thread.waits_in or "futex" in thread.syscall:
        return "locked"
    if place.kind == "data" or {"poll", "_poll", "wait", "get"} & names:
        return "idle"
    return ""


def _loader(
    progress: Progress, cause: str, confidence: float, pairs: Sequence[tuple[Rank, ProcessEvidence]], doing: str
) -> HangCause:
    ranks = [rank for rank, _ in pairs]
    waiting = list(progress.waiting)
    evidence: list[Seen] = []
    for rank, worker in pairs[:MOST_NAMED]:
        thread = main_thread(worker.samples[-1], worker.process.pid) if worker.samples else None
        evidence.append(stack_of(rank))
        stack = " < ".join(f"{each.function} ({line_of(each)})" for each in thread.frames[:4]) if thread else ""
        words = "; ".join(each for each in (_kernel_words(worker), stack, doing) if each)
        evidence.append(Seen(f"data loader pid {worker.process.pid} of rank {rank.rank}", words))
    pid = pairs[0][1].process.pid
    frame = ranks[0].place.user_frame
    return HangCause(
        cause=cause,
        confidence=confidence,
        ranks=numbers_of(ranks),
        where=where(frame),
        evidence=tuple(evidence),
        summary=f"{ranks_of(ranks)} {verb(ranks, 'waits', 'wait')} for a data loader{at(frame)}, whose process {pid} "
        f"{doing}" + (f"; {waiting_words(waiting)}" if waiting else ""),
        fix=fix_for(cause),
        confirm=confirm_for(cause),
    )


def elsewhere_words(ranks: Sequence[Rank]) -> str:
    """ "rank 1 is in a sleep at train.py:52"."""
    return f"{ranks_of(ranks)} {verb(ranks, 'is', 'are')} {place_words(ranks[0].place)}"


RULES = (in_the_kernel, storage, sleeping, compiling, computing, data)
