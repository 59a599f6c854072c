"""The pace of a job in sentences: what the terminal shows, and what `gpudoctor run` says of it."""

from collections.abc import Iterator

from gpudoctor.knowledge.wording import size
from gpudoctor.slow.lateness import GroupPace
from gpudoctor.slow.report import CAUSE, JobPace, RankMemory

MOST_RANKS = 16


def duration(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.2g} s"


def steps_of(group: GroupPace) -> str:
    """ "a step takes 35 ms (28.6 a second); ranks wait for the last one for 14% of the time"."""
    seconds = group.step_seconds
    what = "a step" if group.is_step else "a collective"
    rate = f" ({1 / seconds:.3g} a second)" if seconds > 0 else ""
    long = f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
    return f"{what} takes {long}{rate}; ranks wait for the last one for {group.waited_share:.0%} of the time"


def late(rank: int, seconds: float) -> str:
    """In milliseconds; nobody is "-0.0" late."""
    return f"rank {rank} {round(seconds * 1e3, 1) + 0.0:+.1f}"


def lateness_of(group: GroupPace) -> str:
    """The latest of them, in milliseconds."""
    latest = sorted(group.ranks, key=lambda rank: -group.lateness[rank])
    shown = ", ".join(late(rank, group.lateness[rank]) for rank in sorted(latest[:MOST_RANKS]))
    more = f", and {len(latest) - MOST_RANKS} that are less late" if len(latest) > MOST_RANKS else ""
    return f"ms later than the others: {shown}{more}"


def memory_of(memory: tuple[RankMemory, ...]) -> str:
    """The rank that is nearest to its limit."""

    def near(each: RankMemory) -> float:
        return each.peak_bytes / each.limit_bytes if each.limit_bytes else 0.0

    most = max(memory, key=near)
    of = f" of {size(most.limit_bytes)} ({near(most):.0%})" if most.limit_bytes else ""
    on_gpus = [rank_memory for rank_memory in memory if rank_memory.gpu_bytes and rank_memory.gpu_total_bytes]
    gpu = max(on_gpus, key=lambda on_gpu: (on_gpu.gpu_bytes or 0) / (on_gpu.gpu_total_bytes or 1), default=None)
    words = f"memory: rank {most.rank} has had {size(most.peak_bytes)}{of}"
    if gpu is not None and gpu.gpu_bytes and gpu.gpu_total_bytes:
        share = gpu.gpu_bytes / gpu.gpu_total_bytes
        words += f"; on its GPU rank {gpu.rank} has {size(gpu.gpu_bytes)} of {size(gpu.gpu_total_bytes)} ({share:.0%})"
    return words


def while_it_runs(pace: JobPace) -> Iterator[str]:
    """For who sits before the job, when a rank is named."""
    for slow in pace.slow:
        yield f"{slow.summary}  [{CAUSE}]"
        yield f"fix: {slow.fix.text}"


def at_the_end(pace: JobPace) -> Iterator[str]:
    """Three lines at most: steps, the slowest rank, memory."""
    if pace.groups:
        yield f"pace: {steps_of(pace.groups[0])}"
    if pace.slow:
        yield f"slowest: {pace.slow[0].summary}"
    elif pace.groups and pace.verdict == "even":
        group = pace.groups[0]
        latest = max(group.ranks, key=lambda rank: group.lateness[rank])
        late = max(0.0, group.lateness[latest])
        yield f"slowest: no rank is slower than the others (rank {latest} by {late * 1e3:.1f} ms)"
    if pace.memory:
        yield memory_of(pace.memory)
