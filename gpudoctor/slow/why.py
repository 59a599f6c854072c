"""Why a late rank takes its time there, as far as its node tells: the words of a finding, and which fix fits it."""

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from gpudoctor.envelope import Seen
from gpudoctor.knowledge.gpus import clock_events
from gpudoctor.knowledge.wording import listed, ranges, size
from gpudoctor.slow.where import TimeSpent
from gpudoctor.snapshot.evidence import GpuUse
from gpudoctor.snapshot.pace import ProcessPace

HELD_BACK = 0.5
"""Of what is lost, that being held back must explain: our rule of thumb."""
LEAST_WAITS = 0.03
"""Of the time, that it waits for files; and it is so many times what others do."""
TIMES_OTHERS = 3.0
WORKERS_WAIT = 0.5
"""Of the time of data loader workers."""
SLOWER_CLOCK = 0.9


class Reason(Struct, frozen=True, kw_only=True):
    """`variant`: of the cause `straggler`."""

    variant: str
    words: str
    """Behind the place: "its cgroup's CPU quota holds it back"."""
    evidence: tuple[Seen, ...] = ()


class LateRank(Struct, frozen=True, kw_only=True):
    """What was looked at of one late rank."""

    rank: int
    share: float
    """Of each step, that is lost."""
    process: ProcessPace
    workers: tuple[ProcessPace, ...] = ()
    gpus: tuple[GpuUse, ...] = ()
    """Those on which it runs."""
    other_gpus: tuple[GpuUse, ...] = ()
    others: tuple[ProcessPace, ...] = ()
    """Ranks that are not late."""
    timed: bool = False
    """It is known when its GPU came to the collectives."""


def reason(rank: LateRank, spent: TimeSpent | None) -> Reason | None:
    """The first that fits; what holds back all of a process before what its code does."""
    return (
        _quota(rank)
        or _memory(rank)
        or _without_processor(rank)
        or _gpu(rank, spent)
        or _storage(rank, spent)
        or _input(rank, spent)
        or (_host_code(spent) if spent is not None else None)
    )


def _quota(rank: LateRank) -> Reason | None:
    quota, seconds = rank.process.quota, rank.process.seconds
    if quota is None or seconds <= 0 or not quota.periods:
        return None
    held = quota.throttled_periods / quota.periods
    others = [
        other.quota.throttled_periods / other.quota.periods
        for other in rank.others
        if other.quota and other.quota.periods
    ]
    # A cgroup that they share holds back all of them: then it is not why this one is late.
    if held < HELD_BACK * rank.share or any(other >= held / 2 for other in others):
        return None
    text = (
        f"{quota.throttled_periods} of {quota.periods} periods held back, {quota.throttled_seconds:.1f} s of its "
        f"threads in {seconds:.0f} s; the quota is {quota.cpus:g} CPUs"
    )
    return Reason(
        variant="cpu-quota",
        words=f"its cgroup's CPU quota of {quota.cpus:g} CPUs holds it back",
        evidence=(Seen(f"{quota.folder}/cpu.stat", text),),
    )


def _memory(rank: LateRank) -> Reason | None:
    """It, or a data loader of it, is over its cgroup's memory.high."""
    for process in (rank.process, *rank.workers):
        others = max((other.memory_waits / max(1, other.file_looks) for other in rank.others), default=0.0)
        share = process.memory_waits / max(1, process.file_looks)
        if share < max(HELD_BACK * rank.share, LEAST_WAITS, TIMES_OTHERS * others):
            continue
        own, memory = process.pid == rank.process.pid, process.memory
        of = f" of {size(memory.limit_bytes)}" if memory is not None else ""
        return Reason(
            variant="memory-high",
            words=f"its cgroup's memory limit{of} holds {'it' if own else 'a data loader of it'} back",
            evidence=(
                Seen(
                    memory.folder if memory is not None else f"/proc/{process.pid}/wchan",
                    f"in {process.memory_waits} of {process.file_looks} looks pid {process.pid} waited for memory"
                    + (f"; {size(memory.used_bytes)}{of} used" if memory is not None else ""),
                ),
            ),
        )
    return None


def _without_processor(rank: LateRank) -> Reason | None:
    """Its main thread is ready to run, and others have the processors."""
    process = rank.process
    if process.main_delayed_seconds is None or process.seconds <= 0:
        return None
    delayed = process.main_delayed_seconds / process.seconds
    others = [
        other.main_delayed_seconds / other.seconds
        for other in rank.others
        if other.main_delayed_seconds is not None and other.seconds > 0
    ]
    if delayed < max(HELD_BACK * rank.share, 0.03) or (others and delayed < 3 * max(others)) or _does_more(rank):
        return None
    where = f" (it may run on CPUs {process.cpus_allowed})" if process.cpus_allowed else ""
    text = f"ready to run and without a processor for {process.main_delayed_seconds:.1f} s of {process.seconds:.0f} s"
    return Reason(
        variant="cpu-shared",
        words=f"its main thread waits for a processor{where}",
        evidence=(Seen(f"/proc/{process.pid}/schedstat", text),),
    )


def _does_more(rank: LateRank) -> bool:
    """Whether what its main thread computes and those of others do not explains what is lost: where all processors are
    taken it waits for one too, in proportion to that."""
    ran, delayed = rank.process.main_ran_seconds, rank.process.main_delayed_seconds or 0.0
    others = [
        other.main_ran_seconds / other.seconds
        for other in rank.others
        if other.main_ran_seconds is not None and other.seconds > 0
    ]
    if not ran or not others:
        return False
    more = ran / rank.process.seconds - fmean(others)
    return more * (1 + delayed / ran) >= HELD_BACK * rank.share


def _gpu(rank: LateRank, spent: TimeSpent | None) -> Reason | None:
    for gpu in rank.gpus:
        events = clock_events.harmful(gpu.clock_events or 0)
        most = max((use.clock_mhz or 0 for use in rank.other_gpus), default=0)
        slower = bool(gpu.clock_mhz and most and gpu.clock_mhz < SLOWER_CLOCK * most)
        if events and (slower or not rank.other_gpus):
            clock = f" at {gpu.clock_mhz} MHz, others at {most} MHz" if slower else ""
            return Reason(
                variant="gpu",
                words=f"GPU {gpu.index} is held down by {listed(event.name for event in events)}{clock}",
                evidence=(Seen("NVML", "; ".join(f"{event.name}: {event.meaning}" for event in events)),),
            )
        if slower and (spent is None or spent.phase == "GPU"):  # its power limit, clocks that somebody has set
            by = listed(event.name for event in clock_events.named(gpu.clock_events or 0))
            words = f"GPU {gpu.index} runs at {gpu.clock_mhz} MHz, others at {most} MHz" + (f" ({by})" if by else "")
            return Reason(variant="gpu", words=words)
        # Ranks that are not late have it no less than this one.
        own = {each.pid for each in (rank.process, *rank.workers, *rank.others)}
        strangers = [pid for pid in gpu.pids if pid not in own]
        shared = strangers and not any(len(use.pids) > 1 for use in rank.other_gpus)
        if shared and (spent.phase == "GPU" if spent is not None else rank.timed):
            words = f"GPU {gpu.index} is shared with pid {ranges(strangers[:4])}"
            return Reason(variant="gpu", words=words, evidence=(Seen("NVML", f"processes on it: {sorted(gpu.pids)}"),))
    if (spent is None and rank.timed) or (spent is not None and spent.phase == "GPU"):
        return _gpu_work(rank) or Reason(
            variant="gpu",
            words="its CPU waits there for its GPU"
            if spent is not None
            else "its GPU comes late, and its CPU does nothing for longer than others do",
        )
    return None


def _gpu_work(rank: LateRank) -> Reason | None:
    """Its GPU comes late, and is no slower than those of others: it has more to do."""
    for gpu in rank.gpus:
        if any(other.pid in gpu.pids for other in rank.others):
            words = f"its work keeps GPU {gpu.index} busy for longer than that of others there"
            return Reason(variant="gpu-work", words=words)
    clocks = [gpu.clock_mhz for gpu in rank.gpus if gpu.clock_mhz]
    others = [gpu.clock_mhz for gpu in rank.other_gpus if gpu.clock_mhz]
    if not clocks or not others:
        return None
    words = f"its GPU comes late, and runs at {min(clocks)} MHz, others at {max(others)}: it may have more to do"
    return Reason(variant="gpu-work", words=words)


def _storage(rank: LateRank, spent: TimeSpent | None) -> Reason | None:
    own = _at_files([rank.process])
    others = max((_at_files([other]) for other in rank.others), default=0.0)
    there = spent.samples / spent.of if spent is not None and spent.of else 1.0
    if own >= max(HELD_BACK * min(rank.share, there), LEAST_WAITS, TIMES_OTHERS * others):
        words = "it waits there for storage" if spent is not None else "it waits for storage"
        return _of_storage("its main thread", words, [rank.process])
    if spent is None or spent.phase != "input" or not spent.waits_for_worker:
        return None
    if _at_files(rank.workers) >= WORKERS_WAIT:
        return _of_storage("its data loader workers", "its data loader workers wait for storage", rank.workers)
    return None


def _at_files(processes: Sequence[ProcessPace]) -> float:
    """The part of the time in which their main threads waited for files."""
    return sum(process.file_waits for process in processes) / max(1, sum(process.file_looks for process in processes))


def _of_storage(who: str, words: str, processes: Sequence[ProcessPace]) -> Reason:
    waits, looks = (sum(getattr(process, name) for process in processes) for name in ("file_waits", "file_looks"))
    file = next((process.file for process in processes if process.file), "")
    where = f" ({file})" if file else ""
    return Reason(
        variant="storage",
        words=words + where,
        evidence=(Seen(who, f"waited for a file in {waits} of {looks} looks{where}"),),
    )


def _input(rank: LateRank, spent: TimeSpent | None) -> Reason | None:
    if spent is None or spent.phase != "input":
        return None
    if not spent.waits_for_worker:
        if rank.workers:
            return Reason(variant="host-code", words="")
        return Reason(
            variant="no-workers",
            words="the data loader has no workers (num_workers=0): samples are made between the steps",
        )
    busy = _busy(rank.workers)
    count = f"{len(rank.workers)} data loader worker{'' if len(rank.workers) == 1 else 's'}"
    seen = Seen("its data loader workers", f"{busy:.0%} of their time on a processor")
    if rank.workers and busy >= 0.7:
        return Reason(
            variant="few-workers", words=f"its {count} cannot keep up: they compute all the time", evidence=(seen,)
        )
    return Reason(variant="few-workers", words=f"its {count} cannot keep up", evidence=(seen,) if rank.workers else ())


def _busy(workers: Sequence[ProcessPace]) -> float:
    seconds = sum(worker.seconds for worker in workers)
    return sum(worker.cpu_seconds or 0.0 for worker in workers) / seconds if seconds > 0 else 0.0


def _host_code(spent: TimeSpent) -> Reason | None:
    return Reason(variant="host-code", words="") if spent.phase != "collective" else None
