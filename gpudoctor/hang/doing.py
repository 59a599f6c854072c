"""What a rank does that is in no collective: what it waits for, and whether that gets on (`knowledge.waits`)."""

from collections.abc import Sequence

from gpudoctor.hang.job import Rank
from gpudoctor.knowledge.place_markers import kernel_name, normal
from gpudoctor.knowledge.places import CPU_OF_A_LOOK, Kind, in_collective, is_user, main_thread, moved, place_of
from gpudoctor.knowledge.waits import PIPE, OwnWait, wait_of
from gpudoctor.snapshot.evidence import Frame, ProcessEvidence, Thread

OF_CHILDREN = frozenset(("pool", "future", "process", "child", "queue", "full pipe"))
"""Waits in which a child may be the one that is waited for."""
OF_THREADS = frozenset(("future", "thread", "queue"))
"""Those in which another thread may be."""
BEGINNINGS: frozenset[Kind] = frozenset(("rendezvous", "store wait", "communicator init"))
"""Places in which a process waits for ranks to begin."""
FROM_OUTSIDE = frozenset(("serves", "listens"))
"""Waits for somebody to connect: no fault of a server."""
SERVERS = (
    ("/socketserver.py", "serve_forever"),
    ("/asyncio/base_events.py", "run_forever"),
    ("/grpc/_server.py", ""),
    ("/tornado/ioloop.py", "start"),
    ("/zmq/sugar/poll.py", "poll"),
)
"""Functions in which a thread waits for requests; "": any of the file."""
_MANAGERS = "/python/multiprocessing/managers.py"
COUNTER = "gpudoctor-count"
"""The thread of an armed rank that counts its collectives (armed.py): it wakes every other second, and is none of the
program's. So much of its name has the kernel; where faulthandler told of it, it has none."""
SPINS_FROM = 0.5
"""CPU seconds a second from which a thread does not wait: our rule of thumb."""


def doing(rank: Rank) -> OwnWait | None:
    """What its main thread waits for, where that is no other rank and known."""
    samples = rank.evidence.samples
    if not samples:
        return None
    return wait_of(main_thread(samples[-1], rank.pid), rank.place.user_frame, rank.evidence.sources)


def held_in(process: ProcessEvidence) -> str:
    """The kernel function of its main thread, where it is the same in two looks; else ""."""
    threads = [main_thread(sample, process.pid) for sample in process.samples]
    names = {kernel_name(thread.waits_in) if thread is not None else "" for thread in threads}
    return names.pop() if len(threads) > 1 and len(names) == 1 else ""


def stands(rank: Rank) -> bool:
    """Whether it waits for something known in both looks, and nothing of its own gets on meanwhile."""
    now = doing(rank)
    if now is None or rank.moved is None:
        return False
    if rank.moved and not ((now.polls or _deserted(rank, now)) and _polled(rank, now)):
        return False
    if now.kind in ("child", "process") and now.operation != PIPE and all(map(has_exited, children(rank))):
        return False  # what it waits for was started after the look had begun: one command after the other
    if now.kind in OF_CHILDREN and any(_gets_on(child) for child in children(rank) if not serves_python(child)):
        return False
    if now.kind in OF_THREADS and forked_in_lock(rank) is not None:
        return True  # whatever its threads do meanwhile: of what was forked nobody lets the lock go
    served = now.kind in OF_THREADS or now.kind == "rpc"
    return not (served and any(ran_between(rank, thread) for thread in own_threads(rank)))


def _deserted(rank: Rank, now: OwnWait) -> bool:
    """Whether it asks a queue again and again that processes fill, and one of these has ended."""
    return now.kind == "queue" and "multiprocessing" in now.operation and any(map(has_exited, children(rank)))


def forked_in_lock(rank: Rank) -> ProcessEvidence | None:
    """A child that was forked without an exec, and stands in a lock of the program in both looks."""
    for child in children(rank):
        if has_exited(child) or not child.samples or child.process.command != rank.evidence.process.command:
            continue
        thread = main_thread(child.samples[-1], child.pid)
        own = wait_of(thread, place_of(thread).user_frame, child.sources)
        if own is not None and own.kind == "lock" and not _gets_on(child):
            return child
    return None


def acting_thread(process: ProcessEvidence) -> int:
    """The thread that is the rank to the others: the main one, or, where that waits for a thread, a future, a queue or
    in an event loop, the one that stands in a collective of torch's meanwhile."""
    if not process.samples:
        return process.pid
    sample = process.samples[-1]
    main = main_thread(sample, process.pid)
    wait = wait_of(main, place_of(main, process.sources).user_frame, process.sources)
    if wait is None or wait.kind not in OF_THREADS | {"asyncio"}:
        return process.pid
    others = (thread.id for thread in sample.threads if thread.id != process.pid and in_collective(thread))
    return next(others, process.pid)


def _gets_on(child: ProcessEvidence) -> bool:
    """Whether a child has run between the looks: its main thread, or any other."""
    if len(child.samples) < 2:
        return False
    places = [place_of(main_thread(sample, child.pid), child.sources) for sample in child.samples]
    if all(place.kind in BEGINNINGS for place in places) and places[0].user_frame == places[-1].user_frame:
        return False  # it polls a store of its own, whether or not its peers come
    first, last = child.samples[0].cpu_seconds, child.samples[-1].cpu_seconds
    used = 0.0 if first is None or last is None else last - first
    if used > CPU_OF_A_LOOK:
        return True
    if child.samples[-1].threads and not any(thread.frames for thread in child.samples[-1].threads):
        # No Python: curl wakes each second to look at its clock. What it reads and writes tells.
        counts = {(sample.read_bytes, sample.written_bytes) for sample in child.samples}
        if None not in next(iter(counts)):
            return len(counts) > 1
    return moved(child.samples, child.pid) is True


def serves_python(child: ProcessEvidence) -> bool:
    """Whether it is multiprocessing's own, whose running says nothing of the work: its tracker, its server of forks, a
    manager of queues."""
    words = " ".join(child.process.command)
    thread = main_thread(child.samples[-1], child.pid) if child.samples else None
    frames = [normal(frame.file) for frame in thread.frames] if thread is not None else []
    return "resource_tracker" in words or "forkserver" in words or _MANAGERS in frames


def _polled(rank: Rank, now: OwnWait) -> bool:
    """Whether it did the same in the first look, at the same lines, and slept in between."""
    first, last = rank.evidence.samples[0], rank.evidence.samples[-1]
    before, after = main_thread(first, rank.pid), main_thread(last, rank.pid)
    earlier = wait_of(before, rank.first_place.user_frame, rank.evidence.sources)
    if earlier is None or (earlier.kind, earlier.operation) != (now.kind, now.operation):
        return False
    if rank.first_place.user_frames != rank.place.user_frames or before is None or after is None:
        return False
    if before.cpu_seconds is None or after.cpu_seconds is None:
        return True
    return after.cpu_seconds - before.cpu_seconds < SPINS_FROM * max(0.1, last.at - first.at)


def children(rank: Rank) -> tuple[ProcessEvidence, ...]:
    """The processes below it."""
    return (*rank.data_loaders, *rank.helpers)


def own_threads(rank: Rank) -> list[Thread]:
    """Its other threads that run the program, or tasks of it."""
    threads = rank.evidence.samples[-1].threads if rank.evidence.samples else ()
    others = (thread for thread in threads if thread.id != rank.pid and not is_counter(thread))
    return [thread for thread in others if any(map(is_user, thread.frames))]


def is_counter(thread: Thread) -> bool:
    """Whether it is ours, in an armed rank."""
    return thread.name.startswith(COUNTER) or in_file(thread.frames, "gpudoctor/armed.py", "_count")


def ran_between(rank: Rank, thread: Thread) -> bool:
    """Whether a thread has run between the looks."""
    before = next((each for each in rank.evidence.samples[0].threads if each.id == thread.id), None)
    if before is None:
        return True
    if before.frames and before.frames != thread.frames:
        return True
    return before.switches is not None and thread.switches is not None and before.switches != thread.switches


def listens_in_thread(rank: Rank) -> bool:
    """Whether one of its threads is a server's: what comes in there is what its main thread waits for."""
    threads = rank.evidence.samples[-1].threads if rank.evidence.samples else ()
    return any(
        in_file(thread.frames, file, function)
        for thread in threads
        if thread.id != rank.pid
        for file, function in SERVERS
    )


def innermost(thread: Thread) -> Frame | None:
    """The innermost frame of the program in a thread."""
    return place_of(thread).user_frame


def handler_of(rank: Rank) -> Frame | None:
    """The frame of a signal handler on its stack: a function that the program has made one."""
    names = {name for source in rank.evidence.sources for name in source.handlers}
    return next((frame for frame in rank.place.user_frames[:-1] if short(frame) in names), None)


def short(frame: Frame) -> str:
    """ "get" for "Queue.get"."""
    return frame.function.rpartition(".")[2]


def has_exited(process: ProcessEvidence) -> bool:
    """Whether a child has ended, and nobody has collected it."""
    return process.state in ("Z", "X", "x")


def in_file(frames: Sequence[Frame], end: str, function: str = "") -> bool:
    """Whether a stack has a function of a file."""
    return any(frame.file.replace("\\", "/").endswith(end) and function in ("", short(frame)) for frame in frames)
