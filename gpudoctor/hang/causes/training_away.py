"""A rank is elsewhere while the others wait for it: it sleeps, reads, compiles, waits for data, or computes."""

from collections.abc import Iterator, Sequence

from gpudoctor.causes import CAUSES
from gpudoctor.hang.causes import LIKELY, POSSIBLE, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.doing import FROM_OUTSIDE, doing, in_file, stands
from gpudoctor.hang.gpus import share_of_time
from gpudoctor.hang.never import never_comes
from gpudoctor.hang.progress import JobProgress, asks_its_loaders, lets_work, parties, progress_of, runs, serves
from gpudoctor.hang.relation import awaits_file, guards_of, loop_around, source_at, tries_again
from gpudoctor.hang.words import and_waiting, at, line_of, process_of, stack_of, stacks_of, waiting_words, who, without
from gpudoctor.knowledge.place_markers import NO_MEMORY, NOT_STORAGE, kernel_name
from gpudoctor.knowledge.places import Kind, is_user, main_thread, place_of
from gpudoctor.knowledge.waits import OwnWait, wait_of
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import ProcessEvidence
from gpudoctor.sure import BEST

MOST_NAMED = 8
MOVING = LIKELY
"""Of a rank that is waited for and gets on with what it does: a long validation, a first compilation, a large file.
It is what the job waits for now, and no hang is shown by it."""


def held_up(job: HangJob, *kinds: Kind, alone: bool = False) -> Iterator[tuple[JobProgress, list[Rank]]]:
    """The parties at such a place, where the job may wait for them; `alone`: also where no rank waits for others.

    Not those of which more is known: what they wait for there (`training_waits`)."""
    progress = progress_of(job)
    if progress.verdict in ("stuck", "held") and (alone or progress.waiting):
        for party in parties(progress.away):
            if party[0].place.kind in kinds and not waits_for_known(party[0]):
                yield progress, party


def waits_for_known(rank: Rank) -> bool:
    """Whether it stands in a wait that is no other rank's, nor a server's."""
    wait = doing(rank)
    return wait is not None and wait.kind not in FROM_OUTSIDE and stands(rank) and not asks_its_loaders(rank)


def in_the_kernel(job: HangJob) -> Iterator[HangCause]:
    """State D in both samples: the kernel waits for storage, or for a device."""
    asleep = [
        rank
        for rank in job.ranks
        if len(rank.evidence.samples) > 1
        and all(sample.state == "D" for sample in rank.evidence.samples)
        and _waits_in(rank) not in NO_MEMORY  # training_memory
        and not (rank.moved and _was_counted(rank))  # it has run in between: a large file, on its way to the disk
    ]
    if progress_of(job).verdict == "moves":
        return
    for cause in ("storage-stall", "kernel-wait"):
        some = [rank for rank in asleep if _waits_for_a_driver(rank) == (cause == "kernel-wait")]
        if some:
            function = _waits_in(some[0])
            note = f"in the kernel (state D{f' in {function}' if function else ''}), in both looks"
            yield _stall(job, some, note, cause)


def _waits_in(rank: Rank) -> str:
    thread = main_thread(rank.evidence.samples[-1], rank.pid)
    return kernel_name(thread.waits_in) if thread is not None else ""


def _waits_for_a_driver(rank: Rank) -> bool:
    """Whether the kernel function is none that waits for a file."""
    return NOT_STORAGE.match(_waits_in(rank)) is not None


def storage(job: HangJob) -> Iterator[HangCause]:
    """An open, a read or a write of a file that does not come back; or one that goes on."""
    for progress, party in held_up(job, "storage", alone=True):
        # Bytes are those of all threads: NCCL's, and one that writes a dump, move some while the main one stands.
        still = [rank for rank in party if rank.moved is False and (_was_counted(rank) or not _bytes_move(rank))]
        if still and all(rank.state != "D" for rank in still):
            yield _stall(job, still, "and nothing has moved between two looks")
        going = [rank for rank in without(party, still) if rank.state != "D"]
        if going and progress.waiting:
            doing = ("reads or writes a file", "read or write a file")
            yield _slow(progress, going, MOVING, *doing, "its bytes or CPU time move")


def _stall(job: HangJob, ranks: Sequence[Rank], note: str, cause: str = "storage-stall") -> HangCause:
    frame, operation = ranks[0].place.user_frame, ranks[0].place.operation
    place = operation if operation and ranks[0].place.kind == "storage" else "file access"
    evidence = [stack_of(rank, _kernel_words(rank.evidence)) for rank in ranks[:MOST_NAMED]]
    files = [name for rank in ranks[:MOST_NAMED] for name in rank.evidence.open_files[:4]]
    if files:
        evidence.append(Seen(f"{process_of(ranks[0])} open files", ", ".join(files[:6])))
    return blame(
        cause,
        SEEN,  # two looks; whether the storage or a lock of somebody else's holds it, they do not tell
        ranks,
        f"{who(ranks, 'stands', 'stand')} in {place}{at(frame)}, {note}{and_waiting(progress_of(job).waiting, ranks)}",
        evidence,
        at=frame,
    )


def _kernel_words(process: ProcessEvidence) -> str:
    """ "waits in fifo_open, openat(...)": what the kernel says of the main thread."""
    if not process.samples:
        return ""
    thread = main_thread(process.samples[-1], process.pid)
    if thread is None:
        return ""
    return ", ".join(filter(None, (f"waits in {thread.waits_in}" if thread.waits_in else "", thread.syscall)))


def _was_counted(rank: Rank) -> bool:
    """Whether it is known how often the kernel has switched to its main thread."""
    thread = main_thread(rank.evidence.samples[-1], rank.pid) if rank.evidence.samples else None
    return thread is not None and thread.switches is not None


def _bytes_move(rank: Rank) -> bool:
    samples = rank.evidence.samples
    if len(samples) < 2:
        return False
    first, last = samples[0], samples[-1]
    return (first.read_bytes, first.written_bytes) != (last.read_bytes, last.written_bytes)


def sleeping(job: HangJob) -> Iterator[HangCause]:
    """A rank that sleeps and has not woken between the looks, while others wait."""
    for progress, party in held_up(job, "sleep"):
        still = [rank for rank in party if rank.moved is False]
        if still:
            yield _slow(progress, still, SEEN, "sleeps", "sleep", "it has not woken between two looks")
        awake = [rank for rank in without(party, still) if rank.first_place == rank.place]
        polls = [rank for rank in awake if _in_while(rank) or tries_again(rank)]
        for rank, why, seen in ((rank, *told) for rank in polls if (told := never_comes(rank)) is not None):
            yield _never(progress, rank, why, seen)
            polls = without(polls, [rank])
        locks = [rank for rank in polls if _awaits_removal(rank)]
        if locks:
            yield _lock_left(progress, locks)
        elif polls:
            note = "at the same line in both looks: what it waits for there has not come"
            again = [rank for rank in polls if awaits_file(rank) or tries_again(rank)]
            sure = LIKELY if job.evidence.quiet_seconds is not None and again == polls else POSSIBLE
            does = ("tries", "try") if all(map(tries_again, polls)) else ("looks", "look")
            yield _slow(progress, polls, sure, f"{does[0]} again and again", f"{does[1]} again and again", note)


def _never(progress: JobProgress, rank: Rank, why: str, seen: Seen) -> HangCause:
    return blame(
        "thread-wait",
        LIKELY,  # another one may set it yet, or try it again
        [rank],
        f"rank {rank.rank} looks again and again{at(rank.place.user_frame)}: {why}{and_waiting(progress.waiting)}",
        (*stacks_of([rank], "in that loop in both looks"), seen, *stacks_of(progress.waiting)),
        at=rank.place.user_frame,
    )


def _in_while(rank: Rank) -> bool:
    """Whether it sleeps in a loop that asks for something each time."""
    context = source_at(rank, rank.place.user_frame)
    loop = loop_around(context)
    return loop is not None and loop.kind == "while" and loop.text not in ("True", "1")


_STILL_THERE = lazy_re(r"(?!not\b)[\w.\[\]'\" /+()-]*\b(?:l?exists|is_?file|is_?dir)\([^()]*\)")


def _awaits_removal(rank: Rank) -> bool:
    """Whether it sleeps in a loop as long as a file is there: the file is a lock."""
    loop = loop_around(source_at(rank, rank.place.user_frame))
    return loop is not None and loop.kind == "while" and _STILL_THERE.fullmatch(loop.text) is not None


def _lock_left(progress: JobProgress, ranks: Sequence[Rank]) -> HangCause:
    frame = ranks[0].place.user_frame
    loop = loop_around(source_at(ranks[0], frame))
    asks = f"`while {loop.text}` in line {loop.line}" if loop is not None else ""
    return blame(
        "file-lock-wait",
        LIKELY,  # who has made the file may live, and remove it yet
        ranks,
        f"{who(ranks, 'waits', 'wait')} until a file is gone{at(frame)}: {asks}; {waiting_words(progress.waiting)}",
        (*stacks_of(ranks, "in that loop in both looks"), *stacks_of(progress.waiting)),
        at=frame,
        fix=CAUSES["file-lock-wait"].remedy("left"),
    )


def compiling(job: HangJob) -> Iterator[HangCause]:
    """A rank that compiles, or waits for the lock of one that does; also one that stands may do so for a while."""
    for progress, party in held_up(job, "compile"):
        yield _slow(progress, party, LIKELY, "compiles", "compile", "")


def computing(job: HangJob) -> Iterator[HangCause]:
    """A rank in the program's own code. That it alone is there by the program's will makes it the one that is waited
    for; what it does in ordinary code of a step cannot be told from a long step."""
    for progress, party in held_up(job, "user code", "backward", "cuda sync"):
        if serves(progress):
            return  # it waits for work
        wait = doing(party[0])
        if wait is not None and wait.kind in FROM_OUTSIDE:
            # That it wakes to look for requests is no work, and who is asked for nothing comes to no collective.
            yield _slow(progress, party, POSSIBLE, "waits for requests", "wait for requests", "")
            continue
        if wait is not None:
            doing_it = f"for {wait.operation}, and what {'it waits' if len(party) == 1 else 'they wait'} for gets on"
            yield _slow(progress, party, POSSIBLE, f"waits {doing_it}", f"wait {doing_it}", "")
            continue
        guard = next(guards_of(party[0]), None)
        guarded = guard is not None and len(party) * 2 <= len(job.ranks)
        moving = any(rank.moved is not False or lets_work(rank) for rank in party)
        sure = (MOVING if guarded else POSSIBLE) if moving else BEST  # what it waits for is not seen
        if moving and progress.waiting and all(map(_computes_on, party)):
            sure = BEST
        note = ""
        if guard is not None and guarded:
            note = f"{line_of(guard.frame)} is under `if {guard.statement.text}` in line {guard.statement.line}"
        where = " in the program's own code"
        words = ("computes", "compute") if moving else (f"stands{where}", f"stand{where}")
        yield _slow(progress, party, sure, *words, note)


def _computes_on(rank: Rank) -> bool:
    """Whether it has wanted a processor from look to look, in one call of the program: an expression, a decomposition,
    a search of all pairs takes longer than that."""
    samples = rank.evidence.samples
    stacks = [[*reversed(place.user_frames)] for place in (rank.first_place, rank.place)]
    outer = min(map(len, stacks)) - 1
    if len(samples) < 2 or outer < 1 or stacks[0][:outer] != stacks[1][:outer]:
        return False
    first, last = samples[0], samples[-1]
    share = share_of_time(main_thread(first, rank.pid), main_thread(last, rank.pid), last.at - first.at)
    return share is not None and share >= ALL_OF


ALL_OF = 0.8
"""Of the time between two looks, with what it has waited for a processor: our rule of thumb."""


def _slow(progress: JobProgress, ranks: Sequence[Rank], sure: float, one: str, several: str, note: str) -> HangCause:
    frame = ranks[0].place.user_frame
    return blame(
        "slow-rank-timeout",
        sure,
        ranks,
        f"{who(ranks, one, several)}{at(frame)}; {waiting_words(progress.waiting)}",
        (*stacks_of(ranks, note), *stacks_of(progress.waiting)),
        at=frame,
    )


# ---------------------------------------------------------------- data loaders


def data(job: HangJob) -> Iterator[HangCause]:
    """A rank that waits for its DataLoader: what the workers do decides."""
    for progress, party in held_up(job, "data", alone=True):
        by_state: dict[str, list[tuple[Rank, ProcessEvidence]]] = {"locked": [], "storage": [], "busy": [], "own": []}
        for rank in party:
            states = ((worker_state(worker), worker) for worker in rank.data_loaders)
            telling = next(((state, worker) for state, worker in states if state in by_state), None)
            if telling is not None:
                by_state[telling[0]].append((rank, telling[1]))
        if stuck := by_state["locked"]:
            doing = "stands in a lock, with no CPU time used"
            yield _loader(progress, "dataloader-fork-deadlock", SEEN, stuck, doing)
        elif stalled := by_state["storage"]:
            yield _loader(progress, "storage-stall", SEEN, stalled, "stands in file access")
        elif busy := [rank for rank, _ in by_state["busy"]]:
            if progress.waiting:
                yield _slow(progress, busy, MOVING, "waits for a data loader that works", "wait for data loaders", "")
        elif own := by_state["own"]:
            wait = _own_wait(own[0][1])
            doing_it = f"waits for {wait.operation}" if wait is not None else "stands"
            yield _loader(progress, "dataloader-worker-slow", LIKELY, own, f"{doing_it} in the data set's own code")
        elif all(rank.data_loaders and (rank.moved is False or asks_its_loaders(rank)) for rank in party):
            pairs = [(rank, rank.data_loaders[0]) for rank in party]
            yield _loader(progress, "dataloader-fork-deadlock", BEST, pairs, "uses no CPU time")


def worker_state(worker: ProcessEvidence) -> str:
    """ "locked": in a futex without having run; "storage"; "busy"; "own": it sleeps in the program's code, which waits
    for a server as a rule; "idle": it waits for its next index; ""."""
    if len(worker.samples) < 2:
        return ""
    first, last = worker.samples[0], worker.samples[-1]
    thread = main_thread(last, worker.pid)
    place = place_of(thread)
    if last.state == "D" or place.kind == "storage":
        return "storage"
    if first.cpu_seconds is not None and last.cpu_seconds is not None and last.cpu_seconds - first.cpu_seconds >= 0.05:
        return "busy"
    if thread is None:
        return ""
    wait = _own_wait(worker)
    if wait is not None and wait.kind not in ("lock", "process lock"):
        return "" if runs(worker) and not wait.polls else "own"
    names = {frame.function for frame in thread.frames[:3]}
    if "futex" in thread.waits_in or "futex" in thread.syscall:
        return "locked"
    innermost = next((frame for frame in thread.frames if not frame.native), None)
    if innermost is not None and is_user(innermost):
        return "" if runs(worker) else "own"
    if place.kind == "data" or {"poll", "_poll", "wait", "get"} & names:
        return "idle"
    return ""


def _own_wait(worker: ProcessEvidence) -> OwnWait | None:
    """What the data set waits for, below the loop of a loader's process: a queue, a command, an answer."""
    thread = main_thread(worker.samples[-1], worker.pid) if worker.samples else None
    frames = thread.frames if thread is not None else ()
    loop = next((number for number, frame in enumerate(frames) if in_file([frame], _WORKER, "_worker_loop")), 0)
    user = next(filter(is_user, frames[:loop]), None)
    return wait_of(thread, user, worker.sources) if user is not None else None


_WORKER = "torch/utils/data/_utils/worker.py"


def _loader(
    progress: JobProgress, cause: str, sure: float, pairs: Sequence[tuple[Rank, ProcessEvidence]], doing: str
) -> HangCause:
    ranks = [rank for rank, _ in pairs]
    evidence: list[Seen] = []
    for rank, worker in pairs[:MOST_NAMED]:
        thread = main_thread(worker.samples[-1], worker.pid) if worker.samples else None
        stack = " < ".join(f"{frame.function} ({line_of(frame)})" for frame in thread.frames[:4]) if thread else ""
        words = "; ".join(filter(None, (_kernel_words(worker), stack, doing)))
        evidence += [stack_of(rank), Seen(f"data loader pid {worker.pid} of rank {rank.rank}", words)]
    frame = ranks[0].place.user_frame
    return blame(
        cause,
        sure,
        ranks,
        f"{who(ranks, 'waits', 'wait')} for a data loader{at(frame)}, whose process {pairs[0][1].pid} {doing}"
        f"{and_waiting(progress.waiting)}",
        evidence,
        at=frame,
    )


RULES = (in_the_kernel, storage, sleeping, compiling, computing, data)
