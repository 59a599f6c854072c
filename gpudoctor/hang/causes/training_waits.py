"""A rank is in no collective, and what it waits for there is known: that names the cause."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gpudoctor.hang.causes import CAUSES, POSSIBLE, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.doing import (
    FROM_OUTSIDE,
    children,
    doing,
    forked_in_lock,
    handler_of,
    has_exited,
    in_file,
    innermost,
    own_threads,
    ran_between,
    serves_python,
    short,
    stands,
)
from gpudoctor.hang.progress import WAITING, JobProgress, asks_its_loaders, parties, progress_of, serves
from gpudoctor.hang.relation import source_at
from gpudoctor.hang.waiting_locks import lock, process_lock
from gpudoctor.hang.words import and_waiting, at, ended_words, line_of, stack_of, stacks_of, who
from gpudoctor.knowledge.place_markers import kernel_name, normal
from gpudoctor.knowledge.places import is_user, main_thread, place_of
from gpudoctor.knowledge.waits import OwnWait, wait_of
from gpudoctor.snapshot.evidence import Frame, ProcessEvidence, Thread
from gpudoctor.sure import BEST

MOST_NAMED = 8
REPLACED_AFTER = 50
"""Clock ticks after the first worker of a pool at which one is no longer of its start: our rule of thumb."""
_WRITES = frozenset(("pipe_write", "anon_pipe_write", "fifo_pipe_write"))


class ToldWait(NamedTuple):
    """What is to be said of a party."""

    cause: str
    sure: float
    doing: str
    """After "rank 1 waits": "for Pool.map at train.py:7, ..."."""
    variant: str = ""
    seen: tuple[Seen, ...] = ()
    culprits: tuple[Rank, ...] = ()
    """Where they are others than those of the party."""
    at: Frame | None = None


def waits(job: HangJob) -> Iterator[HangCause]:
    """Each party that stands in a wait of its own, where the job may wait for it."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "held") or serves(progress):
        return  # a server between requests waits for work, which is no fault
    for party in parties(progress.away):
        still = [rank for rank in party if stands(rank) and not asks_its_loaders(rank)]  # what these do is known better
        wait = doing(still[0]) if still else None
        if wait is None or wait.kind not in _TOLD or wait.kind in FROM_OUTSIDE:
            continue
        cause = _TOLD[wait.kind](job, still, wait)
        if cause is None:
            continue
        ranks = cause.culprits or tuple(still)
        known = CAUSES[cause.cause]
        yield blame(
            cause.cause,
            cause.sure,
            ranks,
            f"{who(still, 'waits', 'wait')} {cause.doing}{and_waiting(progress.waiting, still)}",
            (*stacks_of(still), *cause.seen, *stacks_of(progress.waiting)),
            at=cause.at or still[0].place.user_frame,
            fix=known.remedy(cause.variant) if cause.variant else None,
        )


def _where(rank: Rank, wait: OwnWait) -> str:
    return f"{wait.operation}{at(rank.place.user_frame)}"


# ---------------------------------------------------------------- children


def _pool(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    """Workers that all wait for tasks have none: the one that is waited for has died with a worker."""
    del job
    workers = [child for child in children(ranks[0]) if _is_pool_worker(child)]
    busy = [child for child in workers if not _is_idle(child)]
    if busy:
        return _child_told(ranks, wait, busy[0])
    first = min((child.process.started for child in workers), default=0)
    young = [child for child in workers if child.process.started - first > REPLACED_AFTER]
    later = {child.pid: f"; started {(child.process.started - first) / 100:.0f} s after the first" for child in young}
    seen = tuple(
        Seen(f"worker pid {child.pid}", "waits for a task" + later.get(child.pid, "")) for child in workers[:MOST_NAMED]
    )
    ended = f", and process {young[0].pid} has replaced one" if young else ""
    doing_words = f"for {_where(ranks[0], wait)}, and all {len(workers)} workers wait for tasks{ended}"
    return ToldWait("pool-worker-died", SEEN if young else BEST, doing_words, seen=seen) if workers else None


def _stack(child: ProcessEvidence) -> Thread | None:
    return main_thread(child.samples[-1], child.pid) if child.samples else None


def _is_pool_worker(child: ProcessEvidence) -> bool:
    thread = _stack(child)
    return thread is not None and any(
        normal(frame.file).endswith("/python/multiprocessing/pool.py") and short(frame) == "worker"
        for frame in thread.frames
    )


def _is_idle(child: ProcessEvidence) -> bool:
    """Whether a worker of a pool runs no task: nothing of the program stands above the pool's own function."""
    thread = _stack(child)
    for frame in thread.frames if thread is not None else ():
        if short(frame) == "worker" and normal(frame.file).endswith("/pool.py"):
            return True
        if is_user(frame):
            return False
    return True


def _process(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    """A process of multiprocessing that is joined."""
    del job
    for child in children(ranks[0]):
        thread = _stack(child)
        if thread is None or has_exited(child):
            continue
        if in_file(thread.frames, "multiprocessing/queues.py", "_finalize_join"):
            words = f"for {_where(ranks[0], wait)} of process {child.pid}, whose queue nobody reads"
            return ToldWait("join-before-get", SEEN, words, seen=(_seen(child),))
        own = wait_of(thread, place_of(thread).user_frame, child.sources)
        if own is not None and own.kind == "lock" and child.process.command == ranks[0].evidence.process.command:
            return _forked(child, f"for {_where(ranks[0], wait)} of process {child.pid}")
    return _child(ranks=ranks, wait=wait)


def _child_rule(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    del job
    if (child := forked_in_lock(ranks[0])) is not None:
        return _forked(child, f"for {_where(ranks[0], wait)} of process {child.pid}")
    return _child(ranks=ranks, wait=wait)


def _forked(child: ProcessEvidence, words: str) -> ToldWait:
    """One that was forked without an exec, by the program or by multiprocessing, and stands in a lock since."""
    words += f", which stands in a lock{at(place_of(_stack(child)).user_frame)} since its fork"
    return ToldWait("fork-held-lock", SEEN, words, seen=(_seen(child),))


def _child(*, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait:
    """A child that is waited for: the youngest one that lives, and of its own children the last."""
    living = [child for child in children(ranks[0]) if not has_exited(child) and not serves_python(child)]
    if not living:
        return ToldWait("child-process-wait", BEST, f"for {_where(ranks[0], wait)}")
    parents = {child.process.parent for child in living}
    leaves = [child for child in living if child.pid not in parents]
    return _child_told(ranks, wait, max(leaves or living, key=lambda child: child.process.started))


def _child_told(ranks: Sequence[Rank], wait: OwnWait, child: ProcessEvidence) -> ToldWait:
    thread = _stack(child)
    name = child.process.name or "a process"
    does, variant = "has used no CPU time between two looks", ""
    if thread is not None:
        kernel = kernel_name(thread.waits_in)
        if thread.syscall.startswith("read(0,"):
            does, variant = "reads its standard input", "input"
        elif kernel in _WRITES or thread.syscall.startswith("write(1,"):
            does, variant = "writes into a pipe that nobody reads", "output"
        elif (own := place_of(thread)).user_frame is not None:
            does = f"stands{at(own.user_frame)}"
        elif thread.waits_in:
            does = f"stands in {kernel}"
    words = f"for {_where(ranks[0], wait)}: process {child.pid} ({name}) {does}"
    return ToldWait("child-process-wait", SEEN, words, variant, (_seen(child),))


def _seen(child: ProcessEvidence) -> Seen:
    thread = _stack(child)
    command = " ".join(child.process.command)[:120]
    stack = " < ".join(f"{short(frame)} ({line_of(frame)})" for frame in thread.frames[:4]) if thread else ""
    kernel = ", ".join(filter(None, (thread.waits_in, thread.syscall))) if thread is not None else ""
    return Seen(f"process {child.pid} {child.process.name}", "; ".join(filter(None, (command, kernel, stack))))


def _full_pipe(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    del job
    seen = tuple(_seen(child) for child in children(ranks[0])[:2])
    words = f"to write into a pipe{at(ranks[0].place.user_frame)} that nobody reads"
    return ToldWait("child-process-wait", SEEN if seen else BEST, words, "unread", seen) if wait else None


# ---------------------------------------------------------------- queues, threads, loops


def _queue(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    """The other end of a queue: a child that has ended, or a thread."""
    del job
    rank = ranks[0]
    ended = [child for child in children(rank) if has_exited(child)]
    words = f"for {_where(rank, wait)}"
    if ended and wait.operation.startswith(("multiprocessing", "Connection")):
        words += f", and process {ended[0].pid} has {ended_words(ended[0].process.exit_code)}"
        return ToldWait("queue-wait", SEEN, words, "process", tuple(_seen(child) for child in ended[:2]))
    full = wait.operation.endswith("put")
    if full:
        words += ", which is full"
    others = _others(rank)
    # Who is to fill it, or to empty it, is not seen: what that one waits for may be the reason.
    return ToldWait("queue-wait", SEEN if others else BEST, words, "full" if full else "", others)


def _others(rank: Rank) -> tuple[Seen, ...]:
    """Where the other threads of the program stand."""
    return tuple(
        Seen(f"thread {thread.id} {thread.name}".rstrip(), f"stands{at(innermost(thread))}")
        for thread in own_threads(rank)[:4]
    )


def _thread(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    """What the thread that is waited for does; an executor whose task waits for a task of its own."""
    del job
    rank = ranks[0]
    words = f"for {_where(rank, wait)}"
    if (child := forked_in_lock(rank)) is not None:
        return _forked(child, f"{words} of process {child.pid}")
    for thread in own_threads(rank):
        frame = innermost(thread)
        own = wait_of(thread, frame, rank.evidence.sources)
        if own is None:
            continue
        if own.kind == "future" and wait.kind == "future":
            words += f", whose task waits for a task of its own executor{at(frame)}"
            return ToldWait("thread-wait", SEEN, words, "executor", _others(rank))
        if own.kind == "service" and wait.operation == "Thread.join":
            words += f", and that thread for an answer{at(frame)}"
            return ToldWait("service-no-answer", SEEN, words, seen=_others(rank))
    others = own_threads(rank)
    words += f"; its thread {others[0].name} stands{at(innermost(others[0]))}" if others else ""
    return ToldWait("thread-wait", SEEN if others else BEST, words, seen=_others(rank))


def _asyncio(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    """That it listens would not tell a server: gloo listens on every rank."""
    del job
    words = f"in an event loop that has nothing to do, {_where(ranks[0], wait)}"
    context = source_at(ranks[0], ranks[0].place.user_frame)
    if context is None or not context.awaits:
        return ToldWait("asyncio-wait", BEST, words)
    last = context.awaits[-1]
    words += f"; what it runs can only wait for `{last.text}` in line {last.line}"
    return ToldWait("asyncio-wait", BEST, words, at=Frame(last.kind, context.file, last.line))


def _signal(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    del job
    return ToldWait("signal-wait", SEEN, f"for a signal in {_where(ranks[0], wait)}")


def _rpc(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    """Whose handler stands: of all ranks a thread that serves a call and is in the program. A main thread that shuts
    down waits for the calls that its own threads still make."""
    further: Frame | None = None
    for rank in job.ranks:
        for thread in own_threads(rank):
            if not in_file(thread.frames, "torch/distributed/rpc/internal.py", "_run_function"):
                continue
            frame = innermost(thread)
            own = wait_of(thread, frame, rank.evidence.sources)
            if own is not None and own.kind == "rpc":
                if rank in ranks:
                    further = further or frame
                continue  # it waits for another one's
            if ran_between(rank, thread):
                return None  # it is served
            words = f"for {_where(ranks[0], wait)}; the call that rank {rank.rank} serves stands{at(frame)}"
            return ToldWait("rpc-wait", SEEN, words, seen=_others(rank), culprits=(rank,), at=frame)
    words = f"for {_where(ranks[0], wait)}" + (f", and in its threads for calls{at(further)}" if further else "")
    return ToldWait("rpc-wait", BEST, words, seen=_others(ranks[0]), at=further)


# ---------------------------------------------------------------- services and files


def _service(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    """Its connections that are no rank's are the evidence."""
    rank = ranks[0]
    if (own := _within_the_client(rank)) is not None:
        return own
    peers = [
        socket
        for socket in rank.evidence.sockets
        if socket.state in ("ESTABLISHED", "SYN_SENT", "CLOSE_WAIT") and socket.remote_port != job.master_port
    ]
    full = [peer for peer in peers if peer.unsent_bytes]
    named = (full or peers)[-1:]
    seen = tuple(
        Seen("connection", f"{socket.remote}:{socket.remote_port} {socket.state}, {socket.unsent_bytes} bytes unsent")
        for socket in (full or peers)[:4]
    )
    sending = bool(full) or kernel_name(_waits_in(rank)) == "sk_stream_wait_memory"
    words = f"for an answer in {_where(rank, wait)}" if not sending else f"to send in {_where(rank, wait)}"
    words += f", {named[0].remote}:{named[0].remote_port} does not read" if sending and named else ""
    return ToldWait("service-no-answer", SEEN if seen else BEST, words, "sending" if sending else "", seen)


def _within_the_client(rank: Rank) -> ToldWait | None:
    """A client that waits at a queue of its own, with no thread that talks to a server: for one of its connections."""
    threads = rank.evidence.samples[-1].threads if rank.evidence.samples else ()
    main = main_thread(rank.evidence.samples[-1], rank.pid) if threads else None
    python = [frame for frame in main.frames if not frame.native] if main is not None else []
    queue = next((number for number, frame in enumerate(python) if in_file([frame], "/queue.py", "get")), None)
    if queue is None or queue + 1 >= len(python):
        return None
    client = python[queue + 1]
    folder = client.file.rpartition("/")[0]
    if any(frame.file.startswith(folder) for thread in threads if thread is not main for frame in thread.frames):
        return None
    words = f"for a connection of {short(client)}{at(rank.place.user_frame)}: all of its pool are taken"
    return ToldWait("queue-wait", BEST, words, seen=_others(rank))


def _waits_in(rank: Rank) -> str:
    thread = main_thread(rank.evidence.samples[-1], rank.pid) if rank.evidence.samples else None
    return thread.waits_in if thread is not None else ""


def _file_lock(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    """Who may hold it: a rank of the job that has a lock file open, or nobody, where the file itself is the lock."""
    words = f"for a lock on a file in {_where(ranks[0], wait)}"
    database, awaited = "database" in wait.operation, ranks[0].evidence.awaited_lock
    if database:
        words = f"for {_where(ranks[0], wait)}"
    elif awaited is not None:
        words += f" ({awaited.file})" if awaited.file else ""
        words += f", which process {awaited.holder} ({awaited.process or 'ended'}) holds" if awaited.holder else ""
    own = {id(rank) for rank in ranks}
    for rank in job.ranks:
        locked = rank.evidence.locked_files
        holds = bool(locked) or (awaited is not None and rank.pid == awaited.holder)
        if id(rank) not in own and holds and stands(rank):
            words += f"; rank {rank.rank} holds one and waits itself{at(rank.place.user_frame)}"
            return ToldWait("file-lock-wait", POSSIBLE, words, "rank", (stack_of(rank),))  # what that is for, decides
        if locked and id(rank) not in own and rank.place.kind in WAITING:
            words += f"; rank {rank.rank} holds a lock on {locked[0]} and waits{at(rank.place.user_frame)}"
            return ToldWait("file-lock-wait", SEEN, words, "database" if database else "rank", (stack_of(rank),))
    if database:
        return ToldWait("file-lock-wait", SEEN, words, "database")
    thread = main_thread(ranks[0].evidence.samples[-1], ranks[0].pid)
    frames = thread.frames if thread is not None else ()
    alone = in_file(frames, "filelock/_soft.py") or in_file(frames, "torch/utils/file_baton.py")
    return ToldWait("file-lock-wait", SEEN, words, "left" if alone else "")


def _lock(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    del job
    cause = lock(ranks[0], wait)
    return ToldWait("lock-held", SEEN, cause.words, cause.variant, cause.seen)


def _process_lock(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> ToldWait | None:
    cause = process_lock(job, ranks, wait)
    return ToldWait("lock-held", SEEN, cause.words, cause.variant, cause.seen)


_TOLD: dict[str, Callable[[HangJob, Sequence[Rank], OwnWait], ToldWait | None]] = {
    "pool": _pool,
    "process": _process,
    "child": _child_rule,
    "full pipe": _full_pipe,
    "queue": _queue,
    "future": _thread,
    "thread": _thread,
    "asyncio": _asyncio,
    "signal": _signal,
    "rpc": _rpc,
    "service": _service,
    "file lock": _file_lock,
    "lock": _lock,
    "process lock": _process_lock,
}


# ---------------------------------------------------------------- what waits inside of other places


def handlers(job: HangJob) -> Iterator[HangCause]:
    """A rank waits for others inside of a signal handler: only the ranks that got the signal come there."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "held", "starting", "unknown"):
        return
    inside = [rank for rank in progress.waiting if handler_of(rank) is not None]
    if not inside or len(inside) == len(job.ranks):
        return
    for party in parties(inside):
        frame, handler = party[0].place.user_frame, handler_of(party[0])
        others = [rank for rank in progress.waiting if rank not in party]
        yield blame(
            "signal-handler-wait",
            SEEN,
            party,
            f"{who(party, 'waits', 'wait')} in {party[0].place.operation or 'a collective'}{at(frame)}, called by the "
            f"signal handler {short(handler) if handler is not None else ''}" + and_waiting(others),
            (*stacks_of(party), *stacks_of(others)),
            at=frame,
        )


def store_keys(job: HangJob) -> Iterator[HangCause]:
    """Ranks that wait for a key of a store in the program itself, where nobody is away who may set it yet."""
    progress: JobProgress = progress_of(job)
    if progress.verdict not in ("stuck", "starting") or progress.away or progress.stopped or progress.ended:
        return
    if job.missing:
        return
    asks = [rank for rank in progress.waiting if rank.place.kind == "store wait" and _asks_itself(rank)]
    others = [rank for rank in progress.waiting if rank.place.kind != "store wait"]
    apart = len({rank.place.user_frames for rank in asks}) > 1
    for party in parties(asks) if others or apart else ():
        frame = party[0].place.user_frame
        yield blame(
            "store-key-missing",
            SEEN,
            party,
            f"{who(party, 'waits', 'wait')} for a key of a store{at(frame)} that no rank is on its way to set"
            f"{and_waiting(others)}",
            (*stacks_of(party), *stacks_of(others)),
            at=frame,
        )


def _asks_itself(rank: Rank) -> bool:
    """Whether the program has called the store, and no library for it."""
    thread = main_thread(rank.evidence.samples[-1], rank.pid) if rank.evidence.samples else None
    inner = next((frame for frame in thread.frames if not frame.native), None) if thread is not None else None
    return inner is not None and inner == rank.place.user_frame


RULES = (waits, handlers, store_keys)
