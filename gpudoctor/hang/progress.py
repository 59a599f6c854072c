"""Whether a job gets on: what two samples of every rank say together.

What a rank's own movement means depends on where it is:

| the rank | between its two samples | reading |
|---|---|---|
| waits in a collective, point-to-point, backward | other operation or other line | gets on |
| the same | same place, main thread has not been switched to (gloo sleeps in a futex) | still |
| the same | same place, but it ran and slept again: its wait was over in between | gets on |
| the same, on a GPU | same place, spins: GPU busy, memory controller idle, low power | still |
| the same, on a GPU | same place, spins, and the GPU does not tell, or moves memory | unknown |
| waits in rendezvous, init or a store | same place; it polls whether or not its peers come | still, or polls |
| is anywhere else | `places.moved`, or a worker of its own computes | moves, or still |
| was sampled once | | unknown |

| the job | verdict |
|---|---|
| a waiting rank gets on; or no rank waits and one moves | moves |
| all that wait are still, and a rank elsewhere moves | held |
| all that wait are still, and so is all else | stuck |
| all that wait are in rendezvous or init | starting |
| nothing of this is known | unknown |

A rank that sleeps half a second a step moves the others too, so it is the waiting ranks that are asked. Only what was
seen twice counts. RAS counts decide for NCCL where two polls were read: they grow, or they do not.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.knowledge.places import Kind, Place, main_thread
from gpudoctor.snapshot.evidence import GpuUse, NodeEvidence, ProcessEvidence, Ras, Sample

Motion = Literal["gets on", "still", "polls", "spins", "moves", "unknown"]
Movement = Literal["moves", "held", "stuck", "starting", "unknown"]

WAITING: frozenset[Kind] = frozenset(
    {"collective", "point-to-point", "backward", "cuda sync", "communicator init", "rendezvous", "store wait"}
)
"""Places in which a rank waits for another one."""
STARTING: frozenset[Kind] = frozenset({"communicator init", "rendezvous", "store wait"})
STOPPED = ("T", "t")
ENDED = ("Z", "X", "x")

SPINS_FROM = 0.5
"""CPU seconds a second of a thread from which it spins and does not sleep: our rule of thumb; NCCL's waiter uses all of
a core, gloo's none."""
WORKS_FROM = 0.25
"""CPU seconds between two looks from which a worker computes: our rule of thumb, a tenth of the time between them."""
SWITCHES_OF_A_SIGNAL = 6
"""A look by faulthandler's signal, or with native frames, wakes the main thread: our rule of thumb, two looks and the
writing of each."""


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
    counted = _ras_counts_grow(job)
    motions = [_of_waiting(rank, counted) for rank in waiting]
    elsewhere = [_of_away(rank) for rank in away]
    return JobProgress(
        verdict=_verdict(waiting, motions, elsewhere, bool(stopped)),
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
    return rank.place.kind == "user code" and rank.place.operation.startswith(ASKED_FOR_WORK)


def uses_gpu(process: ProcessEvidence, node: NodeEvidence) -> bool:
    """Whether a rank's collectives run on a GPU, as far as is seen."""
    if process.recorder is not None and process.recorder.backend:
        return "ccl" in process.recorder.backend
    return any(process.process.pid in gpu.pids for gpu in node.gpus) or "libcuda.so.1" in process.libraries


def same_place(one: Place, other: Place) -> bool:
    """Whether two places are the same line of the program and the same operation."""
    return (one.kind, one.operation, one.user_frame) == (other.kind, other.operation, other.user_frame)


def lets_work(rank: Rank) -> bool:
    """Whether processes below it compute for it: a pool, data loaders."""
    return any(_cpu_seconds(process) >= WORKS_FROM for process in rank.data_loaders)


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


def _of_away(rank: Rank) -> Motion:
    if lets_work(rank):
        return "moves"
    if rank.moved is None:
        return "unknown"
    return "moves" if rank.moved else "still"


def _of_waiting(rank: Rank, counts_grow: bool | None) -> Motion:
    samples = rank.evidence.samples
    if len(samples) < 2:
        return "unknown"
    if not same_place(rank.first_place, rank.place) and "unknown" not in (rank.first_place.kind, rank.place.kind):
        return "gets on" if rank.place.kind not in STARTING or rank.first_place.kind not in STARTING else "polls"
    if counts_grow is not None and uses_gpu(rank.evidence, rank.node) and rank.place.kind not in STARTING:
        return "gets on" if counts_grow else "still"
    ran = _has_run(samples[0], samples[-1], rank.pid)
    if rank.place.kind in STARTING:
        return "unknown" if ran is None else "polls" if ran else "still"
    if uses_gpu(rank.evidence, rank.node):
        return _on_gpu(rank, ran)
    if ran is None:
        return "unknown"
    return "gets on" if ran else "still"


def _on_gpu(rank: Rank, ran: bool | None) -> Motion:
    own = [gpu for gpu in rank.node.gpus if rank.pid in gpu.pids]
    if own and all(_waits_on_gpu(gpu) for gpu in own):
        return "still"
    if ran is False and not _spun(rank):
        return "still"
    return "spins"


def _waits_on_gpu(gpu: GpuUse) -> bool:
    """A collective's kernel that waits keeps the GPU busy and moves no memory (nccl#968)."""
    busy, memory = gpu.utilization_percent, gpu.memory_utilization_percent
    return busy is not None and busy >= 95 and memory == 0


def _spun(rank: Rank) -> bool:
    first, last = rank.evidence.samples[0], rank.evidence.samples[-1]
    one, other = main_thread(first, rank.pid), main_thread(last, rank.pid)
    if one is None or other is None or one.cpu_seconds is None or other.cpu_seconds is None or last.at <= first.at:
        return False
    return (other.cpu_seconds - one.cpu_seconds) / (last.at - first.at) >= SPINS_FROM


def _has_run(first: Sample, last: Sample, pid: int) -> bool | None:
    """Whether a thread that waits was woken in between; None where that was not counted."""
    one, other = main_thread(first, pid), main_thread(last, pid)
    if one is None or other is None or one.switches is None or other.switches is None:
        return None
    by_signal = last.stacks_by not in ("", "py-spy") or any(frame.native for frame in other.frames)
    return other.switches - one.switches > (SWITCHES_OF_A_SIGNAL if by_signal else 0)


def _ras_counts_grow(job: HangJob) -> bool | None:
    """Whether NCCL has launched collectives between two polls; None where it was not asked twice."""
    answer: bool | None = None
    for node in job.nodes:
        if len(node.ras) < 2:
            continue
        if _counts(node.ras[0]) != _counts(node.ras[-1]):
            return True
        answer = False
    return answer


def _counts(ras: Ras) -> dict[tuple[str, int], dict[str, int]]:
    return {(group.id, rank.rank): rank.counts for group in ras.communicators for rank in group.ranks}


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
