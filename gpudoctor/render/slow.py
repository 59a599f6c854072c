"""The answer of `gpudoctor slow` -> terminal: who is late and where, the ranks side by side, the verdict last."""

from collections.abc import Iterator

from rich.console import Console

from gpudoctor.knowledge.wording import size
from gpudoctor.render.prose import show, show_page
from gpudoctor.render.terminal import BRIEF, REASONS, show_fix, show_next
from gpudoctor.slow.lateness import GroupPace
from gpudoctor.slow.report import CAUSE, JobPace, RankMemory, SlowRanks, SlowReport

MOST_RANKS = 16
MOST_NOTES = 4
COLORS = {"slow": "bold red", "even": "bold green", "unknown": "bold magenta"}


def show_slow(report: SlowReport, screen: Console, verbosity: int = REASONS) -> None:
    def draw() -> None:
        for number, pace in enumerate(report.paces):
            if number:
                screen.print()
            _show_job(pace, screen, verbosity)
        for name, why in report.lost.items():
            show(f"Not looked at: {name}: {why}", screen, style="bold magenta")

    def last() -> None:
        for line, style in _verdicts(report):
            show(line, screen, style=style)

    show_page(screen, draw, last)


def _verdicts(report: SlowReport) -> Iterator[tuple[str, str]]:
    for pace in report.paces:
        yield verdict_of(pace), COLORS[pace.verdict]
    if not report.paces:
        yield "No job could be looked at", COLORS["unknown"]


def verdict_of(pace: JobPace) -> str:
    """How it stands with a job, in a line."""
    name = f"{pace.id}{f', world size {pace.world_size}' if pace.world_size else ''}"
    if pace.verdict == "slow":
        return f"{name}: it is as slow as its slowest rank [{CAUSE}]"
    if pace.verdict == "even":
        return f"{name}: no rank is slower than the others"
    return f"{name}: cannot tell whether a rank is slow: {pace.unknown}"


def _show_job(pace: JobPace, screen: Console, verbosity: int) -> None:
    for slow in pace.slow:
        _show_slow(slow, screen, verbosity)
    for group in pace.groups[: 1 if verbosity <= REASONS else None]:
        show(steps_of(group), screen)
        if verbosity > BRIEF or pace.slow:
            show(lateness_of(group), screen, indent=2)
    if pace.memory and verbosity > BRIEF:
        show(memory_of(pace.memory), screen)
    if pace.slow and pace.unknown:
        show(f"Not seen: {pace.unknown}", screen, style="dim")
    for note in pace.notes[:MOST_NOTES]:
        show(note, screen, style="dim")


def _show_slow(slow: SlowRanks, screen: Console, verbosity: int) -> None:
    show(
        f"cause {slow.summary}  [{CAUSE}]" if verbosity > BRIEF else f"cause {slow.summary}",
        screen,
        style="bold",
        head="bold red",
    )
    if verbosity == BRIEF:
        show_next(f"[{CAUSE}]", slow.fix, screen)
        return
    show_fix(slow.fix, screen)
    if slow.where is not None:
        show(f"Where: {slow.where.file}:{slow.where.line} in {slow.where.function}", screen, indent=2)
    for seen in slow.evidence:
        show(f"Seen: {seen.source}: {seen.text}", screen, indent=2, style="dim")


def steps_of(group: GroupPace) -> str:
    """ "a step takes 35 ms (28.6 a second); its ranks wait for each other for 14% of it"."""
    seconds = group.step_seconds
    what = "a step" if group.is_step else "a collective"
    rate = f" ({1 / seconds:.3g} a second)" if seconds > 0 else ""
    long = f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
    return f"{what} takes {long}{rate}; ranks wait for the last one for {group.waited_share:.0%} of the time"


def lateness_of(group: GroupPace) -> str:
    """The latest of them, in milliseconds."""
    latest = sorted(group.ranks, key=lambda rank: -group.lateness[rank])
    shown = ", ".join(f"rank {rank} {group.lateness[rank] * 1e3:+.1f}" for rank in sorted(latest[:MOST_RANKS]))
    more = f", and {len(latest) - MOST_RANKS} that are less late" if len(latest) > MOST_RANKS else ""
    return f"ms later than the others: {shown}{more}"


def memory_of(memory: tuple[RankMemory, ...]) -> str:
    """The rank that is nearest to its limit."""

    def near(each: RankMemory) -> float:
        return each.peak_bytes / each.limit_bytes if each.limit_bytes else 0.0

    most = max(memory, key=near)
    of = f" of {size(most.limit_bytes)} ({near(most):.0%})" if most.limit_bytes else ""
    on_gpus = [each for each in memory if each.gpu_bytes and each.gpu_total_bytes]
    gpu = max(on_gpus, key=lambda each: (each.gpu_bytes or 0) / (each.gpu_total_bytes or 1), default=None)
    words = f"memory: rank {most.rank} has had {size(most.peak_bytes)}{of}"
    if gpu is not None and gpu.gpu_bytes and gpu.gpu_total_bytes:
        share = gpu.gpu_bytes / gpu.gpu_total_bytes
        words += f"; on its GPU rank {gpu.rank} has {size(gpu.gpu_bytes)} of {size(gpu.gpu_total_bytes)} ({share:.0%})"
    return words
