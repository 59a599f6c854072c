"""The end of a job: ranks that cannot leave, and a store whose host has left."""

from collections.abc import Iterator

from gpudoctor.hang.causes import LIKELY, POSSIBLE, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.progress import parties, progress_of
from gpudoctor.hang.relation import Fork, fork_of
from gpudoctor.hang.rivals import ways_apart
from gpudoctor.hang.words import (
    at,
    place_words,
    process_of,
    ranks_of,
    stacks_of,
    standing_words,
    verb,
    waiting_words,
    who,
    without,
)
from gpudoctor.knowledge.places import is_user, main_thread, place_of
from gpudoctor.snapshot.evidence import Thread
from gpudoctor.sure import BEST


def teardown(job: HangJob) -> Iterator[HangCause]:
    """Every rank that lives is on its way out, or waits for one that is, and nothing moves."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "held") or progress.stopped:
        return
    leaving = [rank for rank in progress.away if rank.place.kind == "exit" and rank.moved is not True]
    if not leaving or len(leaving) < len(progress.away):
        return
    training = [rank for rank in progress.waiting if rank.place.kind in ("collective", "point-to-point", "backward")]
    first = parties(leaving)[0]
    # A rank that leaves while others train has fewer steps than they: collective_divergence names that.
    sure = POSSIBLE if training else SEEN
    thread = kept_by(first[0])
    frame = place_of(thread).user_frame if thread is not None else first[0].place.user_frame
    evidence = [*stacks_of(first), *stacks_of(progress.waiting)]
    summary = f"{who(leaving, 'stands', 'stand')} {place_words(first[0].place)}"
    if thread is not None:
        evidence.append(Seen(f"{process_of(first[0])} thread {thread.id} {thread.name}".rstrip(), f"runs{at(frame)}"))
        summary += f", which thread {thread.name or thread.id}{at(frame)} keeps from ending"
    if progress.waiting:
        summary += f"; {standing_words(progress.waiting)}"
    yield blame("teardown-deadlock", sure, first, summary, evidence, at=frame)


def kept_by(rank: Rank) -> Thread | None:
    """The thread of the program that an interpreter which ends waits for: one that runs the user's code. Which are
    daemons cannot be told from outside, so it is the first of them."""
    if "threads" not in rank.place.operation or not rank.evidence.samples:
        return None
    for thread in rank.evidence.samples[-1].threads:
        frame = place_of(thread).user_frame if thread.id != rank.pid else None
        if frame is not None and is_user(frame):
            return thread
    return None


def in_finally(job: HangJob) -> Iterator[HangCause]:
    """A rank waits in a collective of a `finally` whose `try` others are still in, or of the end of their `with`: it
    has failed there, as a rule, and what it waits in keeps the exception from being printed."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "held") or progress.stopped or progress.ended:
        return
    kinds = ("collective", "backward", "point-to-point", "cuda sync")
    waiting = [rank for rank in progress.waiting if rank.place.kind in kinds]
    by_place = parties(waiting)
    for party in by_place:
        for other in by_place:
            fork = fork_of(party[0], other[0]) if party is not other else None
            left = _left(party[0], fork) if fork is not None else None
            if fork is None or left is None:
                continue
            statement, handler, text = left
            yield blame(
                "teardown-deadlock",
                BEST
                if any(ways_apart(other[0], party[0]))
                else SEEN,  # those in the `finally` may have had fewer steps
                party,
                f"{who(party, 'has', 'have')} left a `{statement}` and {verb(party, 'waits', 'wait')} "
                f"{place_words(party[0].place)} of its `{handler}`, as after an exception that is not printed yet; "
                f"{waiting_words(other)}",
                (
                    *stacks_of(party),
                    *stacks_of(other),
                    Seen(f"{fork.one.file}:{fork.one.line}", text),
                ),
                at=party[0].place.user_frame,
                confirm=f"Print the exception before that line. When there is none, {ranks_of(party)} had fewer steps.",
            )
            return


def _left(rank: Rank, fork: Fork) -> tuple[str, str, str] | None:
    """Whether a rank is in the `finally` of a `try`, or leaves a `with`, that the other one is in: the statement, what
    it is in of it, and the line."""
    here, there = fork.one_source, fork.other_source
    if here is None or there is None:
        return None
    around = {(enclosing.kind, enclosing.line) for enclosing in there.enclosing}
    if any(enclosing.kind == "finally" and ("try", enclosing.line) in around for enclosing in here.enclosing):
        return "try", "finally", f"finally: {here.text}"
    if ("with", fork.one.line) not in around:
        return None
    frames = rank.place.user_frames
    called = frames[: frames.index(fork.one)] if fork.one in frames else ()
    method = called[-1].function.rpartition(".")[2] if called else ""
    return ("with", method, here.text) if method in ("__exit__", "__aexit__") else None


def at_exit(job: HangJob) -> Iterator[HangCause]:
    """A rank waits in what its interpreter calls as it ends (`atexit`): nothing of the program has called that, and the
    others are still in the program."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "held") or progress.stopped or progress.away:
        return
    every = [(rank, _modules(rank)) for rank in progress.waiting]
    whole = max((own for _, own in every), key=len)
    leaving = [rank for rank, own in every if own == whole[1:] and not rank.acting and not _is_in_program(rank)]
    stay = without(progress.waiting, leaving)
    if not whole or not leaving or any(whole[0] not in own for rank, own in every if rank in stay):
        return
    yield blame(
        "teardown-deadlock",
        LIKELY,  # what has ended its program, is not to be seen there
        leaving,
        f"{who(leaving, 'has', 'have')} left the program and {verb(leaving, 'waits', 'wait')} "
        f"{place_words(leaving[0].place)} in what is called at its end (atexit); {waiting_words(stay)}",
        (*stacks_of(leaving), *stacks_of(stay)),
        at=leaving[0].place.user_frame,
        confirm="Whether an exception or sys.exit() has ended the program there, its output tells.",
    )


def _is_in_program(rank: Rank) -> bool:
    """Whether its main thread is, where a recorder has told of what another thread has called."""
    main = main_thread(rank.evidence.samples[-1], rank.pid) if rank.evidence.samples else None
    frames = main.frames if main is not None else ()
    return rank.place.user_frame not in frames and any(frame.function == "<module>" for frame in frames)


def _modules(rank: Rank) -> list[str]:
    """The files as which its program has begun, innermost first: who is called at its end, is called by none."""
    return [frame.file for frame in rank.place.user_frames if frame.function == "<module>"]


def store_left(job: HangJob) -> Iterator[HangCause]:
    """Ranks wait for the store while rank 0, or the launcher that kept it, is gone after a good end."""
    progress = progress_of(job)
    waiting = [rank for rank in progress.waiting if rank.place.kind == "store wait"]
    ended = [rank for rank in progress.ended if rank.evidence.process.exit_code == 0 and rank.rank == 0]
    if not waiting or not ended or progress.away:
        return
    yield blame(
        "store-host-exit",
        SEEN,  # that they want something of it still, the stacks do not tell
        [0],
        f"rank 0, which kept the store, has ended with status 0; {who(waiting, 'waits', 'wait')} for it"
        f"{at(waiting[0].place.user_frame)}",
        stacks_of(waiting),
        at=waiting[0].place.user_frame,
    )


RULES = (teardown, in_finally, at_exit, store_left)
