"""The answer of `gpudoctor slow` -> terminal: who is late and where, the ranks side by side, the verdict last."""

from collections.abc import Iterator

from rich.console import Console

from gpudoctor.render.prose import show, show_page
from gpudoctor.render.terminal import BRIEF, REASONS, show_fix, show_next
from gpudoctor.slow.report import CAUSE, JobPace, SlowRanks, SlowReport
from gpudoctor.slow.words import lateness_of, memory_of, steps_of

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
