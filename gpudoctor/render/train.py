"""A test of training on a terminal: what is being trained, then a matrix of ways and precisions, faults and notes."""

from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudoctor.fleet.messages import Launch
from gpudoctor.knowledge.wording import counted, size
from gpudoctor.nccl.compare_settings import words
from gpudoctor.render.nccl_test import Live, folded
from gpudoctor.render.prose import show, show_table
from gpudoctor.render.terminal import show_problem
from gpudoctor.render.words import safe
from gpudoctor.train.report import Cell, TrainReport
from gpudoctor.train.show import TrainShow

COLORS = {"passed": "green", "failed": "bold red", "hung": "bold red", "crashed": "bold red", "not applicable": "dim"}
UNLIKE = 1.25
"""Devices whose peaks differ by more are told apart: DataParallel gathers on its first. Our rule of thumb."""


class LiveTraining(Live, TrainShow):
    """What is being trained, on standard error where that is a terminal; the answer comes at the end."""

    def __init__(self, screen: Console, errors: TextIO) -> None:
        super().__init__(screen, errors, rows=False)
        self._cells = self._over = 0

    def planned(self, report: TrainReport, cells: int) -> None:
        self._cells = cells

    def started(self, launch: Launch) -> None:
        self._tell("starting the ranks")

    def phase(self, text: str) -> None:
        self._tell(text)

    def cell(self, cell: Cell) -> None:
        self._over += 1
        self._tell(f"{cell.way} {cell.precision} {cell.outcome}")

    def _tell(self, text: str) -> None:
        self._status(f"{self._over}/{self._cells} {text}", done=self._over, total=self._cells)


def show_training(report: TrainReport, screen: Console) -> None:
    """The whole answer; the verdict is its last line."""
    for line in started_lines(report):
        show(f"# {line}", screen)
    if report.cells:
        screen.print()
        show_table(_outcomes(report), screen, gives_way="")
        if memory := _memory(report):
            screen.print()
            show(_memory_title(report), screen)
            show_table(memory, screen, gives_way="")
        for line in _spread(report.cells):
            show(line, screen, indent=2)
    _show_folded("Not applicable:", report.cells, "not applicable", screen)
    _show_folded("Not reached:", report.cells, "not reached", screen)
    _show_notes(report.cells, screen)
    findings = [cell.finding for cell in report.cells if cell.finding is not None]
    for finding in (*findings, *sorted(report.findings, key=lambda f: f.problem.severity != "error")):
        screen.print()
        show_problem(finding.problem, finding.id, screen)
    screen.print()
    show(closing_words(report), screen, style="bold")


def started_lines(report: TrainReport) -> list[str]:
    """Nodes, ranks, backend, versions, settings."""
    if not report.ranks_per_node:
        return []
    first, counts = report.ranks_per_node[0], set(report.ranks_per_node)
    several = len(report.nodes) > 1
    ranks = counted(sum(report.ranks_per_node), "rank") if len(counts) > 1 else counted(first, "rank")
    where = " each" if several and len(counts) == 1 else " in all" if len(counts) > 1 else ""
    backend = "gloo over CPU, not NCCL" if report.backend == "gloo" else report.backend.upper()
    versions = [f"torch {report.torch}" if report.torch else "", report.device, f"{report.steps} steps a cell"]
    return [
        f"{counted(len(report.nodes), 'node')} ({folded(report.nodes)}), {ranks}{where}",
        f"{backend}: {report.why_backend}" if report.why_backend else backend,
        ", ".join(filter(None, versions)),
        *(["set for every rank: " + words(report.settings)] if report.settings else []),
    ]


def seconds_words(seconds: float) -> str:
    """ "3.42 ms", "132 ms", "1.31 s"."""
    if seconds >= 1:
        return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds * 1000:.3g} ms"


def _precisions(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.precision for cell in cells))


def _by_way(cells: Iterable[Cell]) -> dict[str, dict[str, Cell]]:
    ways: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        ways.setdefault(cell.way, {})[cell.precision] = cell
    return ways


def _table(title: str, precisions: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(title, no_wrap=True)
    for precision in precisions:
        table.add_column(safe(precision), no_wrap=True)
    return table


def _outcomes(report: TrainReport) -> Table:
    """What became of each cell, and how long a step took."""
    precisions = _precisions(report.cells)
    table = _table("", precisions)
    for way, cells in _by_way(report.cells).items():
        table.add_row(Text(safe(way)), *(_outcome(cells.get(precision)) for precision in precisions))
    return table


def _outcome(cell: Cell | None) -> Text:
    if cell is None:
        return Text("")
    words = Text(cell.outcome, style=COLORS.get(cell.outcome, ""))
    if cell.trained is not None and cell.trained.step_seconds is not None:
        words.append(f" {seconds_words(cell.trained.step_seconds):>8}", style="")
    return words


def _memory(report: TrainReport) -> Table | None:
    """The most that was allocated on one device; None where nothing was measured."""
    measured = [cell for cell in report.cells if cell.trained is not None and cell.trained.peak_bytes]
    if not measured:
        return None
    precisions = _precisions(report.cells)
    table = _table("", precisions)
    for way, cells in _by_way(measured).items():
        table.add_row(Text(safe(way)), *(_peak(cells.get(precision)) for precision in precisions))
    return table


def _memory_title(report: TrainReport) -> str:
    if report.backend == "gloo":
        return "Growth of a process (resident set; the first cell of a process loads libraries, too):"
    return "Most memory that was allocated on one device:"


def _peak(cell: Cell | None) -> str:
    return size(max(cell.trained.peak_bytes.values())) if cell is not None and cell.trained is not None else ""


def _spread(cells: Iterable[Cell]) -> list[str]:
    """Cells whose devices do not carry alike."""
    lines = []
    for cell in cells:
        peaks = cell.trained.peak_bytes if cell.trained is not None else {}
        on_gpus = {device: peak for device, peak in peaks.items() if "cuda" in device}
        if len(on_gpus) > 1 and max(on_gpus.values()) > UNLIKE * min(on_gpus.values()):
            most = max(on_gpus, key=on_gpus.__getitem__)
            rest = [peak for device, peak in on_gpus.items() if device != most]
            others = "the other" if len(rest) == 1 else f"the other {len(rest)} at most"
            lines.append(f"{cell.way} {cell.precision}: {most} {size(on_gpus[most])}, {others} {size(max(rest))}")
    return lines


def _show_folded(title: str, cells: Sequence[Cell], outcome: str, screen: Console) -> None:
    """Cells with the same reason together."""
    by_reason: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.outcome == outcome:
            by_reason.setdefault(cell.reason or "no reason was given", []).append(cell)
    if by_reason:
        screen.print()
        show(title, screen, style="bold")
    for reason, some in by_reason.items():
        show(f"{_names(some, cells)}: {reason}", screen, indent=2)


def _names(some: Iterable[Cell], every: Iterable[Cell]) -> str:
    """ "dp, split (bf16)": the precisions only where not all of a way's are meant."""
    all_of = {way: list(cells) for way, cells in _by_way(every).items()}
    return ", ".join(
        way if list(cells) == all_of[way] else f"{way} ({', '.join(cells)})" for way, cells in _by_way(some).items()
    )


def _show_notes(cells: Sequence[Cell], screen: Console) -> None:
    by_note: dict[str, list[Cell]] = {}
    for cell in cells:
        for note in cell.trained.notes if cell.trained is not None else ():
            by_note.setdefault(note, []).append(cell)
    if by_note:
        screen.print()
        show("Worth knowing:", screen, style="bold")
    for note, some in by_note.items():
        show(f"{_names(some, cells)}: {note}", screen, indent=2)


def closing_words(report: TrainReport) -> str:
    """The last line: what passed, what did not, and how the test ended."""
    counts = {
        outcome: [cell for cell in report.cells if cell.outcome == outcome]
        for outcome in ("passed", "failed", "hung", "crashed", "not applicable", "not reached")
    }
    tried = len(report.cells) - len(counts["not applicable"])
    seconds = f"{report.seconds:.1f} s"
    nodes = counted(len(report.nodes), "node")
    if report.outcome == "preflight failed":
        return f"Not started: the preflight of {nodes} found what would make it fail, {seconds}"
    if report.outcome == "too few nodes":
        unusable = "it cannot be used" if len(report.nodes) == 1 else "not all of them can be used"
        return f"Not started: {nodes} wanted, and {unusable}, {seconds}"
    bad = [
        f"{len(counts[outcome])} {outcome}: {_names(counts[outcome], report.cells)}"
        for outcome in ("failed", "hung", "crashed", "not reached")
        if counts[outcome]
    ]
    gloo = " (gloo over CPU, not NCCL)" if report.backend == "gloo" and tried else ""
    without = f"; {len(counts['not applicable'])} not applicable" if counts["not applicable"] else ""
    if not tried:
        return f"Nothing to train: no way that was asked for applies here, {seconds}"
    if report.outcome == "interrupted":
        return f"Interrupted: {len(counts['passed'])} of {tried} passed{gloo}; {'; '.join(bad)}{without}; {seconds}"
    if bad:
        return f"{len(counts['passed'])} of {tried} passed{gloo}; {'; '.join(bad)}{without}; {seconds}"
    return f"All {tried} passed{gloo}{without}; no process is left, {seconds}"
