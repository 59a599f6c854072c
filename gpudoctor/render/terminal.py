"""Report -> terminal, in colour or without, readable at 80 columns."""

import io
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudoctor.check import Check, Problem
from gpudoctor.render import words
from gpudoctor.render.network import network_line
from gpudoctor.render.prose import console, show, show_command, show_table
from gpudoctor.report import Report
from gpudoctor.snapshot import Gpu, GpuProcess, Reading, Snapshot

COLORS = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
VERDICT_COLORS = {"errors": "bold red", "warnings": "bold yellow", "healthy": "bold green", "unknown": "bold magenta"}
MIB = 1024**2
LISTED_NAMES = 6
PLAIN_WIDTH = 100
"""Width of text that goes into a file or an issue."""


def plain(report: Report, snapshot: Snapshot) -> str:
    """The report as text without colour, for pasting."""
    page = io.StringIO()
    show_report(report, snapshot, console(no_color=True, file=page, width=PLAIN_WIDTH))
    return page.getvalue().rstrip()


def show_report(report: Report, snapshot: Snapshot, screen: Console) -> None:
    """The whole report: machine, verdict, problems with their fixes, what could not be seen, GPUs, tally."""
    show(words.machine_line(snapshot), screen, style="bold")
    if snapshot.training.python.is_read:
        show(words.training_line(snapshot), screen)
    if fabric := network_line(snapshot):
        show(fabric, screen)
    screen.print()
    show(words.verdict(report), screen, style=VERDICT_COLORS[report.verdict])
    for result, problem in report.problems:
        screen.print()
        show_problem(problem, result.check, screen)
    _show_blind(report, screen)
    _show_gpus(snapshot, screen)
    screen.print()
    show(words.tally(report), screen, style="dim")
    if report.counts.not_run:
        show("Not run: " + "; ".join(_distinct_reasons(report, "not-run")), screen, style="dim")


def show_problem(problem: Problem, id: str, screen: Console) -> None:
    """One problem: what, what it means, the fix with its lines to paste, what it rests on; `id` may be ""."""
    head = f"{problem.severity} {problem.summary}" + (f"  [{id}]" if id else "")
    show(head, screen, style="bold", head=COLORS[problem.severity])
    show(problem.meaning, screen, indent=2)
    show(f"Fix: {problem.fix.text}", screen, indent=2)
    for command in problem.fix.commands:
        show_command(command, screen)
    for reading in problem.evidence:
        show(f"Seen: {words.evidence(reading)}", screen, indent=2, style="dim")


def _show_blind(report: Report, screen: Console) -> None:
    """What could not be seen, checks with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for result in report.could_not_look:
        for reason in result.reasons or ("no reason given",):
            name = f"{result.check} (crashed: a bug in this check)" if result.outcome == "crashed" else result.check
            by_reason.setdefault(reason, []).append(name)
    if by_reason:
        screen.print()
        show("Could not look:", screen, style="bold magenta")
    for reason, names in by_reason.items():
        show(reason, screen, indent=2)
        show(_listed(names), screen, style="dim", indent=4)


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many more: one wedged driver blinds most checks at once."""
    shown = names if len(names) <= LISTED_NAMES + 1 else names[:LISTED_NAMES]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more (--json lists them)" if more else "")


def _distinct_reasons(report: Report, outcome: str) -> list[str]:
    found = [reason for result in report.results if result.outcome == outcome for reason in result.reasons]
    return list(dict.fromkeys(found))


def _show_gpus(snapshot: Snapshot, screen: Console) -> None:
    gpus = snapshot.nvidia.gpus.value_or(())
    if not gpus:
        return
    screen.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("GPU", "Name"):
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    for title in ("Memory GiB", "Util", "Temp", "Power W", "PCIe"):
        table.add_column(title, justify="right", no_wrap=True)
    for gpu in gpus:
        table.add_row(*map(words.safe, _gpu_row(gpu)))
    show_table(table, screen, gives_way="Name")
    for gpu in gpus:
        for process in gpu.processes.value_or(()):
            show(_process_line(gpu, process), screen, style="dim", indent=2)


def _gpu_row(gpu: Gpu) -> tuple[str, ...]:
    name = gpu.name.value_or("") or f"({gpu.name.reason})"
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    memory = f"{used.value / words.GIB:.1f}/{total.value / words.GIB:.1f}" if used.is_read and total.is_read else "?"
    power = "/".join(_figure(reading, "{:.0f}") for reading in (gpu.power_draw_watts, gpu.power_limit_watts))
    link = f"{_figure(gpu.pcie_generation, 'gen{}')} {_figure(gpu.pcie_width, 'x{}')}"
    return (
        str(gpu.index),
        name.removeprefix("NVIDIA "),
        memory,
        _figure(gpu.utilization_gpu_percent, "{}%"),
        _figure(gpu.temperature_celsius, "{} C"),
        power,
        link,
    )


def _figure(reading: Reading[int] | Reading[float], form: str) -> str:
    """A figure; "-" where this GPU has none, "?" where it could not be read."""
    if reading.is_read:
        return form.format(reading.value)
    return "-" if reading.missing_kind == "absent" else "?"


def _process_line(gpu: Gpu, process: GpuProcess) -> str:
    memory = f"{process.memory_bytes / MIB:.0f} MiB" if process.memory_bytes is not None else "memory unknown"
    user = process.user.value_or("") or "?"
    command = process.command.value_or("") or f"({process.command.reason})"
    own = ", gpudoctor itself" if process.is_own else ""
    return f"GPU {gpu.index}: pid {process.pid}, {user}, {memory}{own}: {command}"


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
    for paragraph in check.documentation.split("\n\n"):
        screen.print()
        lines = paragraph.splitlines()
        if any(line.startswith((" ", "- ", "* ")) for line in lines):  # a list or a command
            for line in lines:
                screen.print(Text(words.safe(line)), soft_wrap=True)
        else:  # wrapped for its file, not for this terminal
            show(" ".join(lines), screen)
