"""The answer of `gpudoctor checkpoint` -> terminal: what it is, problems, how to load it, then the tensors."""

import os

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudoctor.checkpoint.report import CheckpointFinding, CheckpointReport, Fixed, Loading, TensorEntry
from gpudoctor.knowledge.wording import counted, listed, size
from gpudoctor.render.prose import COLORS, show, show_command, show_table
from gpudoctor.render.words import safe

FORMATS = {
    "torch zip": "torch.save",
    "torch legacy": "torch.save, in the format before 1.6",
    "safetensors": "safetensors",
    "safetensors index": "an index of safetensors files",
    "torch index": "an index of torch.save files",
}
FEW = 12
"""Tensors that are listed without --tensors."""
MOST_PARTS = 12


def show_checkpoint(report: CheckpointReport, screen: Console, *, every_tensor: bool = False) -> None:
    """Everything; the verdict last."""
    _show_head(report, screen)
    screen.print()
    for problem in report.problems:
        _show_problem(problem, screen)
        screen.print()
    for loading in report.loading:
        _show_loading(loading, screen)
        screen.print()
    _show_tensors(report, screen, every_tensor)
    if report.fixed is not None:
        _show_fixed(report.fixed, screen)
    show(verdict(report), screen, style="bold red" if report.exit_status else "bold green")


def _show_head(report: CheckpointReport, screen: Console) -> None:
    by = f", written by {listed(report.written_by)}" if report.written_by else ""
    name = os.path.basename(report.file)  # noqa: PTH119 - a text as the user gave it
    show(f"{name}: {size(report.size_bytes)}, {FORMATS[report.format]}{by}", screen, style="bold")
    if report.tensor_count:
        types = ", ".join(f"{kind} {number}" for kind, number in report.dtypes.items())
        at = f" under {report.chosen}" if report.chosen else ""
        show(
            f"State dict{at}: {counted(report.tensor_count, 'tensor')}, {_many(report.parameters)} elements, "
            f"{size(report.tensor_bytes)} ({types})",
            screen,
        )
    others = [part for part in report.parts if part.key != report.chosen or not report.tensor_count]
    words = []
    for part in others[:MOST_PARTS]:
        key = part.key or "the file"
        words.append(f"{key} {part.value}" if part.what == "value" else f"{key} {part.what} of {size(part.size_bytes)}")
    if len(others) > MOST_PARTS:
        words.append(f"{len(others) - MOST_PARTS} more")
    if words:
        show(f"Beside it: {', '.join(words)}" if report.tensor_count else f"Holds: {', '.join(words)}", screen)
    for group in report.shared[:4]:
        show(f"Shared: {listed(group)} are the same numbers", screen)
    if len(report.shared) > 4:
        show(f"Shared: {len(report.shared) - 4} more groups; --json has them", screen)


def _many(number: int) -> str:
    """ "124.4 million"."""
    for unit, word in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= unit:
            return f"{number / unit:.1f} {word}"
    return str(number)


def _show_problem(problem: CheckpointFinding, screen: Console) -> None:
    show(f"{problem.severity} {problem.summary}  [{problem.id}]", screen, style="bold", head=COLORS[problem.severity])
    show(problem.meaning, screen, indent=2)
    show(f"Fix: {problem.fix.text}", screen, indent=2)
    for command in problem.fix.commands:
        show_command(command, screen)


def _show_loading(loading: Loading, screen: Console) -> None:
    if loading.error:
        show(f"load_state_dict of {loading.model} says, given the names as they are:", screen)
        for line in loading.error.splitlines():
            screen.print(Text("  " + safe(line.replace("\t", "  ").rstrip())), soft_wrap=True)
    else:
        show(f"load_state_dict of {loading.model} takes the names as they are.", screen)
    show("It is loaded by:", screen)
    for line in loading.lines:
        show_command(line, screen)
    if loading.error and loading.error_after:
        show("and then says:", screen)
        for line in loading.error_after.splitlines():
            screen.print(Text("  " + safe(line.replace("\t", "  ").rstrip())), soft_wrap=True)


def _show_tensors(report: CheckpointReport, screen: Console, every: bool) -> None:
    shown = report.tensors if every else report.tensors[:FEW]
    if not shown:
        return
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    remarks = [safe(_remark(entry)) for entry in shown]
    for column in ("Tensor", "Type", "Shape", *(("Remark",) if any(remarks) else ())):
        table.add_column(column, no_wrap=True)
    for entry, remark in zip(shown, remarks, strict=True):
        shape = "x".join(map(str, entry.shape)) or "scalar"
        table.add_row(safe(entry.name), entry.dtype, shape, *((remark,) if any(remarks) else ()))
    show_table(table, screen, gives_way="Tensor")
    rest = report.tensor_count - len(shown)
    if rest:
        show(f"and {counted(rest, 'more tensor')}" + ("" if every else "; --tensors lists all"), screen)
    screen.print()


def _remark(entry: TensorEntry) -> str:
    words = []
    if entry.nan:
        words.append(f"{entry.nan} NaN")
    if entry.infinite:
        words.append(f"{entry.infinite} inf")
    if entry.shared_with:
        words.append(f"same as {entry.shared_with}")
    if entry.kind != "dense":
        words.append(entry.kind)
    return ", ".join(words)


def _show_fixed(fixed: Fixed, screen: Console) -> None:
    dropped = f", without {listed(fixed.dropped)}" if fixed.dropped else ""
    renamed = f", {fixed.renamed} with another name" if fixed.renamed else ""
    show(
        f"Written: {fixed.path}, {size(fixed.size_bytes)}, {counted(fixed.tensors, 'tensor')}{renamed}{dropped}; "
        f"compared: {fixed.compared}; reloaded: {fixed.reloaded}",
        screen,
        style="bold",
    )
    for remark in fixed.remarks:
        show(f"Note: {remark}", screen, indent=2)
    screen.print()


def verdict(report: CheckpointReport) -> str:
    """In one line."""
    errors = sum(problem.severity == "error" for problem in report.problems)
    warnings = sum(problem.severity == "warning" for problem in report.problems)
    if errors:
        return f"Not to be used as it is: {counted(errors, 'error')}" + (
            f", {counted(warnings, 'warning')}" if warnings else ""
        )
    seen = "every number was read" if report.values_read else "its numbers were not read"
    return f"Readable, {seen}" + (f"; {counted(warnings, 'warning')}" if warnings else "")
