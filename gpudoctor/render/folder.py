"""The answer of `gpudoctor report` -> terminal: what became of the run, what happened when, what else lies there."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from rich.console import Console

from gpudoctor.envelope import Answer, Stated
from gpudoctor.explain.report import Explanation
from gpudoctor.fleet.survey import Survey
from gpudoctor.folder.answer import FolderAnswer, KeptRun, TimelineMoment, UseOverTime, ending
from gpudoctor.hang.report import HangReport
from gpudoctor.knowledge.wording import counted, listed, size
from gpudoctor.nccl.result import TestResult
from gpudoctor.render.explain import verdict as verdict_of_logs
from gpudoctor.render.fleet import verdict as verdict_of_survey
from gpudoctor.render.hang import verdict_of, verdict_without_jobs
from gpudoctor.render.nccl_test import closing_words
from gpudoctor.render.prose import show, show_command, show_page
from gpudoctor.render.train import closing_words as closing_words_of_training
from gpudoctor.render.words import verdict as verdict_of_machine
from gpudoctor.report import Report
from gpudoctor.train.report import TrainReport

MOST_MOMENTS, MOST_PARTS, MOST_FOUND = 16, 12, 4
LONGEST = 200
MOST_NODES = 16


def show_folder(answer: FolderAnswer, screen: Console) -> None:
    show_page(screen, lambda: _draw(answer, screen), lambda: _last(answer, screen))


def _draw(answer: FolderAnswer, screen: Console) -> None:
    if answer.run is not None:
        show(run_words(answer.run), screen)
        if answer.run.nodes:
            show(nodes_words(answer.run), screen)
    statements = [stated for stated in answer.stated() if stated.severity != "info"]
    for number, statement in enumerate(statements[:MOST_FOUND]):
        _show_found(statement, screen, whole=not number)
    if len(statements) > MOST_FOUND:
        show(f"and {len(statements) - MOST_FOUND} more (--json lists them)", screen, style="dim")
    if answer.moments:
        screen.print()
        show(
            f"What happened{f', hours:minutes:seconds after {answer.clock}' if answer.clock else ''}:",
            screen,
            style="bold",
        )
        for moment in chosen(answer.moments, MOST_MOMENTS):
            show(
                f"{when(moment):>10}  {moment.text[:LONGEST]}{f'  ({moment.source})' if moment.source else ''}",
                screen,
                indent=2,
            )
        if len(answer.moments) > MOST_MOMENTS:
            show(
                f"and {len(answer.moments) - MOST_MOMENTS} more (--html draws them, --json lists them)",
                screen,
                indent=2,
            )
    if used := list(use_words(answer.use)):
        screen.print()
        for line in used:
            show(line, screen)
    parts = [(name, each) for name, each in answer.parts]
    if parts:
        screen.print()
        for name, part in parts[:MOST_PARTS]:
            words = part_verdict(part)
            if isinstance(part, Explanation) and part.well and answer.run is not None and answer.run.status is None:
                words = "No fault in what was kept of them; how the run ended they do not show"
            show(f"{name}: {words}", screen)
    unread = [file for file in answer.files if file.kind == "not read"]
    if unread:
        show(f"Not read: {listed([f'{file.name} ({file.words})' for file in unread])}", screen, style="dim")


def _show_found(stated: Stated, screen: Console, *, whole: bool) -> None:
    who = f"{subject}: " if (subject := subject_of(stated)) else ""
    show(f"{stated.severity} {who}{stated.summary}  [{stated.id}]", screen, style="bold",
         head="bold red" if stated.severity == "error" else "bold yellow")  # fmt: skip
    if whole and stated.fix is not None:
        show(f"Fix: {stated.fix.text}", screen, indent=2)
        for command in stated.fix.commands:
            show_command(command, screen)


def _last(answer: FolderAnswer, screen: Console) -> None:
    color = {0: "bold green", 1: "bold red"}.get(answer.exit_status, "bold magenta")
    show(verdict(answer), screen, style=color)


def verdict(answer: FolderAnswer) -> str:
    """ "The run ended with exit status 1 after 41 min 12 s: a rank ran out of GPU memory"."""
    run = answer.run
    if run is None:
        worst = next((stated for stated in answer.stated() if stated.severity == "error"), None)
        if worst is not None:
            return f"{f'{subject}: ' if (subject := subject_of(worst)) else ''}{worst.summary}"
        return (
            "Nothing wrong in what this folder holds"
            if answer.exit_status == 0
            else "Cannot tell from what this folder holds"
        )
    if run.status is None:
        return "The run has not ended, or it was killed with all that was to see how, as a container or a machine is"
    after = f" after {duration(run.seconds)}" if run.seconds is not None else ""
    if answer.ended_well:
        return f"The run ended well{after}"
    own = answer.own_cause()
    why = f": {own.summary}" if own is not None and run.cause is not None else "; why was not seen"
    return f"The run ended with {ending(run)}{after}{why}"


def run_words(run: KeptRun) -> str:
    where = f" in {run.folder}" if run.folder else ""
    return f"{' '.join(run.command)}{f', on {run.host}' if run.host else ''}{where}"


def nodes_words(run: KeptRun) -> str:
    """ "With n2 (exit status 1 after 33.2 s), n3 (SIGKILL after 20.1 s)"."""
    parts = []
    for node in run.nodes:
        how = "ended well" if node.status == 0 else ending(node) if node.status is not None else "its end is not known"
        after = f" after {duration(node.seconds)}" if node.seconds is not None else ""
        parts.append(f"{node.host} ({how}{after})")
    return (
        f"With {listed(parts[:MOST_NODES])}{f', and {len(parts) - MOST_NODES} more' if len(parts) > MOST_NODES else ''}"
    )


def part_verdict(part: Answer) -> str:
    """What an answer of another command says at its end."""
    if isinstance(part, Explanation):
        return verdict_of_logs(part)
    if isinstance(part, HangReport):
        return "; ".join(verdict_of(job, part) for job in part.jobs) or verdict_without_jobs(part)
    if isinstance(part, Report):
        return verdict_of_machine(part)
    if isinstance(part, Survey):
        return verdict_of_survey(part)
    if isinstance(part, TestResult):
        return closing_words(part)
    return closing_words_of_training(part) if isinstance(part, TrainReport) else ""


def use_words(use: Sequence[UseOverTime]) -> Iterator[str]:
    """ "GPUs: 87% busy on average (GPU 3: 41%), 71.2 GB at most on one"."""
    busy = {
        curve.name: fmean(value for _, value in curve.points) for curve in use if curve.unit == "%" and curve.points
    }
    if busy:
        mean, least = fmean(busy.values()), min(busy, key=lambda name: busy[name])
        odd = f" ({least}: {busy[least]:.0f}%)" if busy[least] < mean - 10 else ""
        held = max(
            (value for curve in use if curve.name in busy and curve.unit == "bytes" for _, value in curve.points),
            default=0.0,
        )
        more = f", {size(int(held))} of memory at most on one" if held else ""
        yield f"{counted(len(busy), 'GPU')}: {mean:.0f}% busy on average{odd}{more}"
    for curve in use:
        if curve.points and curve.name == "memory":
            yield f"Memory of its processes: {size(int(max(value for _, value in curve.points)))} at most"
        elif curve.points and curve.name == "processors":
            values = [value for _, value in curve.points]
            yield f"Processors: {fmean(values):.1f} cores on average, {max(values):.1f} at most"


def chosen(moments: Sequence[TimelineMoment], most: int) -> list[TimelineMoment]:
    """The first and the last of too many: how it began, and how it ended."""
    if len(moments) <= most:
        return list(moments)
    return [*moments[: most // 4], *moments[len(moments) - (most - most // 4) :]]


def when(moment: TimelineMoment) -> str:
    return "?" if moment.seconds is None else f"+{clock(moment.seconds)}"


def subject_of(stated: Stated) -> str:
    """Whom it is about, where its summary does not begin with that."""
    return "" if stated.summary.startswith(stated.subject or "") else stated.subject or ""


def clock(seconds: float) -> str:
    """ "2:13:07": hours, minutes, seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def duration(seconds: float) -> str:
    """ "12.3 s", "41 min 12 s", "2 h 13 min 07 s"."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    hours, minutes, rest = clock(seconds).split(":")
    return f"{hours} h {minutes} min {rest} s" if hours != "0" else f"{int(minutes)} min {rest} s"
