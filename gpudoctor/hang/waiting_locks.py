"""A lock that a rank waits for: who has it, by the stacks of all its threads and the program's text."""

from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.hang.doing import handler_of, innermost, own_threads, short
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.progress import waits
from gpudoctor.hang.relation import source_at
from gpudoctor.hang.report import Seen
from gpudoctor.hang.words import at, stack_of
from gpudoctor.knowledge.places import main_thread
from gpudoctor.knowledge.waits import OwnWait, enters_lock, wait_of
from gpudoctor.snapshot.evidence import Frame


class Lock(NamedTuple):
    """What is said of a lock that is waited for."""

    words: str
    variant: str
    seen: tuple[Seen, ...]


def lock(rank: Rank, wait: OwnWait) -> Lock:
    """Of a lock between threads."""
    frame = rank.place.user_frame
    words = f"for a lock{at(frame)}"
    if (handler := handler_of(rank)) is not None:
        return Lock(f"{words} in the signal handler {short(handler)}, which has interrupted its holder", "handler", ())
    if any(short(user_frame) == "__del__" for user_frame in rank.place.user_frames):
        return Lock(f"{words} in a finalizer", "finalizer", ())
    if (outer := _taken_before(rank, wait)) is not None:
        return Lock(
            f"for {wait.operation}{at(frame)}, which the same thread holds in {outer.function} already", "twice", ()
        )
    own = _name(wait.operation)
    for outer in rank.place.user_frames[1:]:
        context = source_at(rank, outer)
        held = [enclosing for enclosing in context.enclosing if enclosing.kind == "with"] if context is not None else []
        if own and any(_name(enclosing.text) == own for enclosing in held):
            return Lock(f"{words} that the same thread holds{at(outer)}", "twice", ())
    others = [
        (thread, innermost(thread))
        for thread in own_threads(rank)
        if (other := wait_of(thread, innermost(thread), rank.evidence.sources)) is not None and other.kind == "lock"
    ]
    seen = tuple(
        Seen(f"thread {thread.id} {thread.name}".rstrip(), f"waits for a lock{at(line)}") for thread, line in others
    )
    if others:
        thread, line = others[0]
        return Lock(f"{words}, and its thread {thread.name} for another{at(line)}", "order", seen)
    return Lock(f"{words} that nobody gives back", "", seen)


def _taken_before(rank: Rank, wait: OwnWait) -> Frame | None:
    """The function of a library that takes its lock, further out in the same stack: what it has called under the lock
    (a log, a finalizer, a handler) has called it again."""
    thread = main_thread(rank.evidence.samples[-1], rank.pid) if rank.evidence.samples else None
    frames = thread.frames if thread is not None else ()
    if not enters_lock(wait.frame) or wait.frame not in frames[:-1]:
        return None
    at_lock = frames.index(wait.frame) + 1
    taker = frames[at_lock]
    return next(
        (far for far in frames[at_lock + 1 :] if (far.file, far.function) == (taker.file, taker.function)), None
    )


def _name(text: str) -> str:
    """The lock's own name, by which the same one is known in another function: "lock" of "with self.lock"."""
    return text.removeprefix("with ").partition(".acquire")[0].rpartition(".")[2].strip()


def process_lock(job: HangJob, ranks: Sequence[Rank], wait: OwnWait) -> Lock:
    """Of a lock between processes: a rank that waits inside of its block has it."""
    own = {id(rank) for rank in ranks}
    for rank in job.ranks:
        if id(rank) in own or not waits(rank):
            continue
        for frame in rank.place.user_frames:
            context = source_at(rank, frame)
            if context is not None and any(
                enclosing.kind == "with" and "lock" in enclosing.text.lower() for enclosing in context.enclosing
            ):
                words = f"for a lock between processes{at(ranks[0].place.user_frame)}"
                return Lock(f"{words}, which rank {rank.rank} holds{at(frame)}", "processes", (stack_of(rank),))
    return Lock(f"for {wait.operation}{at(ranks[0].place.user_frame)}", "", ())
