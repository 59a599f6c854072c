"""Report -> terminal, in colour or without, readable at 80 columns.

Without more being asked for: the machine, its GPUs, a line a culprit with what to do, and the verdict last. `-v` gives
reasons and evidence, `-vv` all there is.
"""

import io
from collections.abc import Sequence
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from gpudoctor.check import Check, Fix, Problem
from gpudoctor.culprits import OneTrouble, culprits
from gpudoctor.effect import effect_of
from gpudoctor.knowledge.wording import counted
from gpudoctor.render import words
from gpudoctor.render.gpus import NOT_ASKED, OK, UNSEEN, show_gpus, show_processes
from gpudoctor.render.network import network_line
from gpudoctor.render.prose import COLORS, console, show, show_command, show_page, show_paragraphs
from gpudoctor.report import Report
from gpudoctor.snapshot import Snapshot

VERDICT_COLORS = {
    "ready": "bold green",
    "nothing wrong": "bold green",
    "not ready": "bold red",
    "cannot tell": "bold magenta",
}
T = TypeVar("T")
LISTED_NAMES = 6
BLIND_LINES = 3
PLAIN_WIDTH = 100
"""Width of text that goes into a file or an issue."""
OF_GPUS = "gpu"
"""The group of checks that look at each GPU."""
BRIEF, REASONS, ALL = 0, 1, 2
"""How much is shown."""


def plain(report: Report, snapshot: Snapshot, verbosity: int = REASONS, width: int = PLAIN_WIDTH) -> str:
    """The report as text without colour, for pasting."""
    page = io.StringIO()
    show_report(report, snapshot, console(no_color=True, file=page, width=width), verbosity)
    return page.getvalue().rstrip()


def show_report(report: Report, snapshot: Snapshot | None, screen: Console, verbosity: int = BRIEF) -> None:
    """Machine, GPUs, culprits with their fixes, what could not be seen, verdict.

    Of a saved report there is no snapshot: it names the machine, and its GPUs stand in the findings only.
    """
    groups = culprits([(result.check, problem) for result, problem in report.problems], lambda each: each, _gpus_of)

    def draw() -> None:
        if snapshot is None:
            show(report.machine or "a machine that the file does not name", screen, style="bold")
        else:
            _show_machine(snapshot, screen, verbosity)
        if gpus := snapshot.nvidia.gpus.value_or(()) if snapshot is not None else ():
            screen.print()
            troubles = [
                (trouble.severity, trouble.leads.short, gpu) for trouble in groups for gpu in trouble.leads.gpus
            ]
            asked = not report.sight.selected or OF_GPUS in report.sight.selected
            seen = not any(result.group == OF_GPUS for result in report.could_not_look)
            show_gpus(gpus, troubles, screen, well=(OK if seen else UNSEEN) if asked else NOT_ASKED)
            if verbosity >= REASONS:
                show_processes(gpus, screen)
        if groups and verbosity == BRIEF:
            screen.print()
        for culprit in groups:
            if verbosity == BRIEF:
                show_briefly(culprit, culprit.leads, screen)
            else:
                screen.print()
                show_problem(culprit.leads, culprit.id, screen, whole=verbosity >= ALL)
                _show_others(culprit, screen, verbosity)
        _show_blind(report, screen, verbosity)
        if verbosity >= REASONS:
            _show_tally(report, screen, verbosity)

    show_page(screen, draw, lambda: show(words.verdict(report), screen, style=VERDICT_COLORS[report.verdict]))


def _gpus_of(problem: Problem) -> tuple[int, ...]:
    return problem.gpus


def _show_machine(snapshot: Snapshot, screen: Console, verbosity: int) -> None:
    fabric = network_line(snapshot)
    if verbosity == BRIEF:
        show(words.header(snapshot, fabric, screen.width), screen, style="bold")
        return
    show(words.machine_line(snapshot), screen, style="bold")
    if snapshot.training.python.is_read:
        show(words.training_line(snapshot), screen)
    if fabric:
        show(fabric, screen)


def show_briefly(culprit: OneTrouble[T], problem: Problem, screen: Console, *, who: str = "", where: str = "") -> None:
    """A culprit in a line, and in another its id and what to do. `who` has it, and `where` its lines hold."""
    more = f" +{len(culprit.others)}" if culprit.others else ""
    tag = f"[{culprit.id}{more}]"
    is_info = culprit.severity == "info"
    head, tail = f"{culprit.severity} {who}", f"  {tag}" if is_info else ""
    line = head + words.headline(problem.summary, screen.width - len(head) - len(tail)) + tail
    show(line, screen, style="bold", head=COLORS[culprit.severity])
    if is_info:
        return
    show_next(tag, problem.fix, screen, where=where)


def show_next(tag: str, fix: Fix, screen: Console, *, where: str = "") -> None:
    """What to do, in a line with the id: the line to begin with, or the first that the words say."""
    command = fix.first_line
    start, clause = f"  {tag} ", words.first_clause(fix.text)
    if command is not None and effect_of(command) is not None:
        place, line = f"{where}{fix.where}: ", words.safe(command)
        if len(start) + len(place) + len(line) > screen.width:  # it is pasted whole, or not at all
            place, line = place.rstrip(), f"\n    {line}"
        screen.print(Text.assemble(start, place, (line, "green")), soft_wrap=True)
    elif command is not None and len(start) + len(clause) + 2 + len(command) <= screen.width:
        screen.print(Text.assemble(start, f"{clause}: ", (words.safe(command), "green")), soft_wrap=True)
    else:
        show(start.strip() + f" {clause}", screen, indent=2)


def show_problem(problem: Problem, id: str, screen: Console, *, whole: bool = False) -> None:
    """One problem: what, what it means, the fix with its lines to paste, what it rests on; `id` may be ""."""
    head = f"{problem.severity} {problem.summary}" + (f"  [{id}]" if id else "")
    show(head, screen, style="bold", head=COLORS[problem.severity])
    show(problem.meaning, screen, indent=2)
    show_fix(problem.fix, screen)
    for reading in problem.evidence:
        show(f"Seen: {words.evidence(reading, whole=whole)}", screen, indent=2, style="dim")


def show_fix(fix: Fix, screen: Console, word: str = "Fix") -> None:
    """A fix with where it is done, its lines to paste and what they risk; what can be done in its place comes apart."""
    place = f" ({fix.where})" if fix.where and fix.commands else ""
    show(f"{word}{place}: {fix.text}", screen, indent=2)
    for command in fix.commands:
        show_command(command, screen)
    if fix.risk:
        show(f"Risk: {fix.risk}", screen, indent=2)
    for other in fix.otherwise:
        show_fix(other, screen, "Or")


def _show_others(culprit: OneTrouble[Problem], screen: Console, verbosity: int) -> None:
    """What follows from it: their own fixes are not for now, and only shown with everything."""
    for id, problem in culprit.others:
        if verbosity >= ALL:
            show(f"From the same: {problem.severity} {problem.summary}  [{id}]", screen, indent=2, style="bold")
            show(problem.meaning, screen, indent=4)
        else:
            show(f"From the same: {problem.summary}  [{id}]", screen, indent=2)
        for reading in problem.evidence:
            show(f"Seen: {words.evidence(reading, whole=verbosity >= ALL)}", screen, indent=2, style="dim")


def _show_blind(report: Report, screen: Console, verbosity: int) -> None:
    """What could not be seen, checks with the same reason together, the reason of most checks first."""
    by_reason: dict[str, list[str]] = {}
    for result in report.could_not_look:
        for reason in result.reasons or ("no reason given",):
            name = f"{result.check} (crashed: a bug in this check)" if result.outcome == "crashed" else result.check
            by_reason.setdefault(reason, []).append(name)
    if not by_reason:
        return
    screen.print()
    if verbosity == BRIEF:
        every = sorted(by_reason.items(), key=lambda item: -len(item[1]))
        for reason, names in every[:BLIND_LINES]:
            who = names[0] if len(names) == 1 else counted(len(names), "check")
            show(f"{who} could not look: {reason}", screen, style="magenta")
        if len(every) > BLIND_LINES:
            show(f"and {counted(len(every) - BLIND_LINES, 'more reason')} (-v)", screen, style="magenta")
        return
    show("Could not look:", screen, style="bold magenta")
    for reason, names in by_reason.items():
        show(reason, screen, indent=2)
        show(_listed(names, whole=verbosity >= ALL), screen, style="dim", indent=4)


def _listed(names: Sequence[str], *, whole: bool) -> str:
    """The first names, and how many more: one wedged driver blinds most checks at once."""
    shown = names if whole or len(names) <= LISTED_NAMES + 1 else names[:LISTED_NAMES]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more (-vv lists them)" if more else "")


def _show_tally(report: Report, screen: Console, verbosity: int) -> None:
    screen.print()
    show(words.tally(report), screen, style="dim")
    if report.counts.not_run:
        show("Not run: " + "; ".join(_distinct_reasons(report, "not-run")), screen, style="dim")
    if verbosity >= ALL:
        for result in report.results:
            reasons = f": {'; '.join(result.reasons)}" if result.reasons else ""
            show(f"{result.check} ({result.outcome}){reasons}", screen, style="dim", indent=2)


def _distinct_reasons(report: Report, outcome: str) -> list[str]:
    reasons = [reason for result in report.results if result.outcome == outcome for reason in result.reasons]
    return list(dict.fromkeys(reasons))


def show_checks(checks: Sequence[Check], screen: Console) -> None:
    """All checks, group by group."""
    group = ""
    for check in checks:
        if check.group != group:
            if group:
                screen.print()
            group = check.group
            show(group, screen, style="bold")
        screen.print(Text.assemble("  ", (check.id, "green"), f": {check.title}"), soft_wrap=True)


def show_check(check: Check, screen: Console) -> None:
    """One check's documentation."""
    screen.print(Text.assemble((check.id, "bold green"), f"  (group {check.group})"))
    show(f"Healthy: {check.title}", screen)
    show_paragraphs(check.documentation, screen)
