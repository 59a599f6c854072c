"""Whether a job gets on: what two samples of every rank say together.

What a rank's own movement means depends on where it is:

| the rank | between its two samples | reading |
|---|---|---|
| waits in a collective, point-to-point, backward | other operation or other line | gets on |
| the same | same place, main thread has not been switched to (gloo sleeps in a futex) | still |
| the same | same place, but it ran and slept again: its wait was over in between | gets on |
| the same, on a GPU | same place, spins: GPU busy, memory controller idle, low power | still |
| the same, on a GPU | same place, spins, and the GPU does not tell, or moves memory | unknown |
| waits in MPI | same place, spins, as MPI does until its peers come | unknown |
| waits in rendezvous, init or a store | same place; it polls whether or not its peers come | still, or polls |
| is anywhere else | `places.moved`, or a worker of its own computes | moves, or still |
| looks whether a file has come | and who was there has seen no collective begun for long | still |
| tries again what has failed | and that has gone on for a minute | still |
| was sampled once | | unknown |

| the job | verdict |
|---|---|
| a waiting rank gets on; or no rank waits and one moves | moves |
| all that wait are still, and a rank elsewhere moves | held |
| all that wait are still, and so is all else | stuck |
| all that wait are in rendezvous or init | starting |
| ranks are missing, and a launcher that has started none computes | starting |
| nothing of this is known | unknown |

A rank that sleeps half a second a step moves the others too, so it is the waiting ranks that are asked. Only what was
seen twice counts. RAS counts decide for NCCL where two polls were read: they grow, or they do not.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from gpudoctor.hang.doing import FROM_OUTSIDE, OF_THREADS, children, doing, is_counter, listens_in_thread, stands
from gpudoctor.hang.gpus import (
    OF_THE_LIBRARIES,
    QUIET_SECONDS,
    computes,
    gpus_of,
    is_quiet,
    share_of_time,
    uses_gpu,
    waits_for_others,
)
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.own_ras import polls
from gpudoctor.hang.relation import awaits_file, tries_again
from gpudoctor.knowledge.places import CPU_OF_A_LOOK, MPI, Kind, Place, main_thread
from gpudoctor.snapshot.evidence import ProcessEvidence, Sample
from gpudoctor.snapshot.ras import Ras

Motion = Literal["gets on", "still", "polls", "spins", "moves", "unknown"]
Movement = Literal["moves", "held", "stuck", "starting", "unknown"]

WAITING: frozenset[Kind] = frozenset(
    {"collective", "point-to-point", "backward", "cuda sync", "communicator init", "rendezvous", "store wait"}
)
"""Places in which a rank waits for another one."""
STARTING: frozenset[Kind] = frozenset({"communicator init", "rendezvous", "store wait"})
STARTS_WITHIN = 30.0
"""Seconds of age: our rule of thumb; imports of torch alone may take 20 s on a cold file system."""
STOPPED = ("T", "t", "F")
ENDED = ("Z", "X", "x")

SPINS_FROM = 0.5
"""CPU seconds a second of a thread from which it spins and does not sleep: our rule of thumb; NCCL's waiter uses all of
a core, gloo's none."""
WORKS_FROM = 0.25
"""CPU seconds between two looks from which a worker computes: our rule of thumb, a tenth of the time between them."""
SWITCHES_OF_A_SIGNAL = 6
"""A look by faulthandler's signal, or with native frames, wakes the main thread: our rule of thumb, two looks and the
writing of each."""


WAKES_OF_ONE_IDLE = 2
"""A loader's process that waits for its next index wakes every five seconds (torch's MP_STATUS_CHECK_INTERVAL)."""
TRIES_SECONDS = 60.0
"""Without a collective, from which who tries again stands still: usual clients (huggingface_hub, botocore) have given
up by then."""
MOST_PARTIES = 32
"""Places at which ranks are that are spoken of; the smallest parties first."""


class JobProgress(Struct, frozen=True, kw_only=True):
    """What two samples of a job's ranks say."""

    verdict: Movement
    waiting: tuple[Rank, ...] = ()
    """Those that wait for others, by rank."""
    away: tuple[Rank, ...] = ()
    """Those that are elsewhere and live."""
    stopped: tuple[Rank, ...] = ()
    ended: tuple[Rank, ...] = ()
    """Zombies, and those that were gone at the second look."""
    motions: tuple[Motion, ...] = ()
    """Of `waiting` and `away`, in that order."""

    @property
    def gets_on(self) -> bool:
        """Whether a rank that waited for others has got what it waited for."""
        return "gets on" in self.motions

    @property
    def busy(self) -> tuple[Rank, ...]:
        """Ranks elsewhere that move."""
        pairs = zip(self.away, self.motions[len(self.waiting) :], strict=True)
        return tuple(rank for rank, motion in pairs if motion == "moves")


def progress_of(job: HangJob) -> JobProgress:
    """Whether it gets on. Linear in the number of ranks."""
    waiting: list[Rank] = []
    away: list[Rank] = []
    stopped: list[Rank] = []
    ended: list[Rank] = []
    for rank in job.ranks:
        if rank.state in STOPPED:
            stopped.append(rank)
        elif has_ended(rank):
            ended.append(rank)
        elif waits(rank):
            waiting.append(rank)
        else:
            away.append(rank)
    launched = _Launched(job)
    motions = [_of_waiting(rank, launched.grow(rank)) for rank in waiting]
    quiet = job.evidence.quiet_seconds
    elsewhere = [_of_away(rank, quiet) for rank in away]
    return JobProgress(
        verdict="starting"
        if still_starts(job) and "gets on" not in motions
        else _verdict(waiting, motions, elsewhere, bool(stopped)),
        waiting=tuple(waiting),
        away=tuple(away),
        stopped=tuple(stopped),
        ended=tuple(ended),
        motions=(*motions, *elsewhere),
    )


def has_ended(rank: Rank) -> bool:
    """Whether it is a zombie, or was seen to be gone. What was not read has not ended."""
    return rank.state in ENDED


def waits(rank: Rank) -> bool:
    """Whether it waits for another rank. A backward that computes does not, nor a synchronisation without a GPU."""
    kind = rank.place.kind
    if kind == "backward":
        return rank.moved is not True or uses_gpu(rank.evidence, rank.node)
    if kind == "cuda sync":
        return uses_gpu(rank.evidence, rank.node) or rank.moved is not True
    return kind in WAITING


ASKED_FOR_WORK = (
    "queue.",
    "selectors.",
    "socket.",
    "socketserver.",
    "connection.",
    "base_events.",
    "runners.",
    "read of ",
)
"""Beginnings of the operations in which a program waits for something that is no rank of its job."""


def awaits_work(rank: Rank) -> bool:
    """Whether it waits for something from outside, as a server does between requests: a queue, a socket, a pipe."""
    now = doing(rank)
    if now is not None and (now.kind in FROM_OUTSIDE or (now.kind in OF_THREADS and listens_in_thread(rank))):
        return True
    if rank.place.operation.startswith("queue.") and _is_single(rank):
        return False
    return rank.place.kind == "user code" and rank.place.operation.startswith(ASKED_FOR_WORK)


def _is_single(rank: Rank) -> bool:
    """Whether nothing is in its process that could put into a queue of it: no other thread but those of CUDA and torch,
    which run no Python. A thread in C may call some (gRPC's)."""
    threads = rank.evidence.samples[-1].threads if rank.evidence.samples else ()
    others = [thread for thread in threads if thread.id != rank.pid and not is_counter(thread)]
    return len(others) < len(threads) and all(
        not thread.frames and OF_THE_LIBRARIES.match(thread.name) for thread in others
    )


HANDS_ON = ("broadcast", "broadcast_object_list", "scatter", "scatter_object_list", "recv", "recv_object_list")
"""How workers of a server get their requests from its first rank."""


def serves(progress: JobProgress) -> bool:
    """Whether all that wait for no other rank wait for requests, and the others at most for what these pass on."""
    handed_on = all(rank.place.operation in HANDS_ON for rank in progress.waiting)
    return handed_on and bool(progress.away) and all(map(awaits_work, progress.away))


def same_place(one: Place, other: Place) -> bool:
    """Whether two places are the same line of the program and the same operation."""
    return (one.kind, one.operation, one.user_frame) == (other.kind, other.operation, other.user_frame)


def lets_work(rank: Rank) -> bool:
    """Whether processes below it compute for it: a pool, data loaders, a command."""
    return any(_cpu_seconds(process) >= WORKS_FROM for process in children(rank))


def parties(ranks: Sequence[Rank]) -> list[list[Rank]]:
    """Ranks that are at the same place, the smallest party first."""
    by_place: defaultdict[object, list[Rank]] = defaultdict(list)
    for rank in ranks:
        by_place[rank.place.kind, rank.place.operation, rank.place.user_frame].append(rank)
    return sorted(by_place.values(), key=lambda party: (len(party), party[0].rank))[:MOST_PARTIES]


def _cpu_seconds(process: ProcessEvidence) -> float:
    """Used between its two samples."""
    if len(process.samples) < 2:
        return 0.0
    first, last = process.samples[0].cpu_seconds, process.samples[-1].cpu_seconds
    return 0.0 if first is None or last is None else last - first


def _of_away(rank: Rank, quiet: float | None) -> Motion:
    """`quiet`: for so long no rank has begun a collective, as far as somebody has seen."""
    if lets_work(rank):
        return "moves"
    if quiet is not None and (awaits_file(rank) or (quiet >= TRIES_SECONDS and tries_again(rank))):
        return "still"
    if rank.moved is None:
        return "unknown"
    if stands(rank):
        return "still"
    if rank.moved is False and doing(rank) is not None:
        return "moves"  # what it waits for gets on
    return "moves" if rank.moved and not asks_its_loaders(rank) else "still"


def asks_its_loaders(rank: Rank) -> bool:
    """Whether it waits for data loaders that do nothing: it only wakes every few seconds to see whether they live."""
    if rank.place.kind != "data" or not rank.data_loaders or _spun(rank):
        return False
    if any(len(worker.samples) < 2 for worker in rank.data_loaders):
        return False  # they have ended between the looks: it has begun another epoch
    stays = "unknown" in (rank.first_place.kind, rank.place.kind) or same_place(rank.first_place, rank.place)
    return stays and not any(map(runs, rank.data_loaders))


def runs(worker: ProcessEvidence) -> bool:
    """Whether a loader's process was seen to run: it computes, or sleeps and wakes as one that reads slowly."""
    if _cpu_seconds(worker) > CPU_OF_A_LOOK:
        return True
    if len(worker.samples) < 2:
        return False
    return _has_run(worker.samples[0], worker.samples[-1], worker.pid, WAKES_OF_ONE_IDLE) is True


def _of_waiting(rank: Rank, counts_grow: bool | None) -> Motion:
    samples = rank.evidence.samples
    if len(samples) < 2:
        return "unknown"
    if not same_place(rank.first_place, rank.place) and "unknown" not in (rank.first_place.kind, rank.place.kind):
        if rank.place.kind not in STARTING:
            return "gets on"
        # One that has only now come to where ranks begin has waited for none, and got nothing.
        begins = rank.first_place.kind not in WAITING and rank.evidence.process.age_seconds < STARTS_WITHIN
        return "polls" if begins or rank.first_place.kind in STARTING else "gets on"
    gpu = uses_gpu(rank.evidence, rank.node)
    if counts_grow and gpu and rank.place.kind not in STARTING:
        return "gets on"
    ran = _has_run(samples[0], samples[-1], rank.thread)
    if rank.place.kind in STARTING:
        return "unknown" if ran is None else "polls" if ran else "still"
    if gpu:
        return _on_gpu(rank, ran, counts_grow)
    if ran is None:
        return "unknown"
    if rank.place.operation.startswith(MPI) and _spun(rank):
        return "spins"
    return "gets on" if ran else "still"


def _on_gpu(rank: Rank, ran: bool | None, counts_grow: bool | None) -> Motion:
    """Of one whose line has not changed. A GPU that computes may do so for longer than two looks, and nothing moves
    meanwhile."""
    own = gpus_of(rank.evidence, rank.node, rank.local_rank)
    if any(map(computes, own)):
        return "spins"
    if counts_grow is False or (own and all(map(waits_for_others, own))):
        return "still"
    samples = rank.evidence.samples
    if is_quiet(rank.evidence.recorder, samples[-1].at - samples[0].at if own else QUIET_SECONDS):
        return "still"
    if ran is False and not _spun(rank):
        return "still"
    return "spins"


def _spun(rank: Rank) -> bool:
    first, last = rank.evidence.samples[0], rank.evidence.samples[-1]
    share = share_of_time(main_thread(first, rank.thread), main_thread(last, rank.thread), last.at - first.at)
    return share is not None and share >= SPINS_FROM


def _has_run(first: Sample, last: Sample, pid: int, wakes: int = 0) -> bool | None:
    """Whether a thread that waits was woken in between, more often than `wakes`; None where that was not counted."""
    one, other = main_thread(first, pid), main_thread(last, pid)
    if one is None or other is None or one.switches is None or other.switches is None:
        return None
    by_signal = last.stacks_by not in ("", "py-spy") or any(frame.native for frame in other.frames)
    return other.switches - one.switches > max(wakes, SWITCHES_OF_A_SIGNAL if by_signal else 0)


class _Launched:
    """What NCCL's RAS says of collectives that were launched between its two polls."""

    def __init__(self, job: HangJob) -> None:
        self._any: bool | None = None
        self._own: dict[int, set[bool]] = defaultdict(set)
        """By process id, of ranks that are told one by one. Two hosts may have one: then the answer is everybody's."""
        for answers in polls(job):
            if len(answers) < 2:
                continue
            first, last = _counts(answers[0]), _counts(answers[-1])
            self._any = bool(self._any) or first != last
            before = _by_process(answers[0])
            for process, counts in _by_process(answers[-1]).items():
                if process in before:
                    self._own[process[1]].add(counts != before[process])

    def grow(self, rank: Rank) -> bool | None:
        """Whether this rank has launched one; whether any has where this one is not told of, None where none is.

        Others may launch ahead of what their GPUs have come to: that does not say that one that waits gets on."""
        own = self._own.get(rank.pid, set())
        return next(iter(own)) if len(own) == 1 else self._any


def _by_process(ras: Ras) -> dict[tuple[str, int], dict[str, dict[str, int]]]:
    """Host and process id of each rank that is told with it -> its counts in each communicator."""
    by_process: dict[tuple[str, int], dict[str, dict[str, int]]] = defaultdict(dict)
    for group in ras.communicators:
        for rank in group.ranks:
            if rank.pid:
                by_process[rank.host, rank.pid][group.id] = rank.counts
    return by_process


def _counts(ras: Ras) -> dict[tuple[str, int], dict[str, int]]:
    return {(group.id, rank.rank): rank.counts for group in ras.communicators for rank in group.ranks}


def still_starts(job: HangJob) -> bool:
    """Whether ranks are missing, and a torchrun that has started none computes: it imports torch, on a slow file system
    or among others, and is seen not to be where it waits for nodes or watches its ranks."""
    return bool(job.missing) and any(
        launcher.kind == "torchrun" and launcher.moved and not launcher.ranks and launcher.place.kind == "user code"
        for launcher in job.launchers
    )


def _verdict(waiting: list[Rank], motions: list[Motion], elsewhere: list[Motion], stopped: bool) -> Movement:
    if "gets on" in motions:
        return "moves"
    if not waiting:
        if "moves" in elsewhere:
            return "held" if stopped else "moves"
        return "unknown" if "unknown" in elsewhere or not (elsewhere or stopped) else "stuck"
    if not elsewhere and not stopped and all(rank.place.kind in STARTING for rank in waiting):
        return "starting"
    if "still" not in motions and "polls" not in motions:
        # nothing that waits tells; what stands elsewhere keeps it waiting all the same
        return "stuck" if stopped or (elsewhere and set(elsewhere) == {"still"}) else "unknown"
    if "moves" in elsewhere:
        return "held"
    return "stuck"
