"""The GPUs of a machine as a table: sick ones by a row with a mark and the reason, alike healthy ones folded."""

from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudoctor.check import Severity
from gpudoctor.knowledge.wording import ranges
from gpudoctor.render.prose import COLORS, show, show_table
from gpudoctor.render.words import GIB, safe
from gpudoctor.snapshot import Gpu, GpuProcess, Reading

MIB = 1024**2
MARKS: dict[Severity, str] = {"error": "x", "warning": "!"}
"""Before the row of a GPU; what is only worth knowing makes none sick."""
OK, UNSEEN, NOT_ASKED = "ok", "not wholly seen", ""
"""What stands in the row of a GPU without trouble: a choice of checks that leaves GPUs out calls none well."""
WIDE = 100
"""From so many columns on, there is room for power and temperature."""


def show_gpus(
    gpus: Sequence[Gpu], troubles: Iterable[tuple[Severity, str, int]], screen: Console, *, well: str
) -> None:
    """The table; `troubles`: the worst first. `well`: what is said of a GPU that has none."""
    sick: dict[int, list[tuple[Severity, str]]] = {}
    for severity, short, index in troubles:
        if severity in MARKS:
            sick.setdefault(index, []).append((severity, short))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    for title in ("GPU", "Name"):
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    figures = [title for title in FIGURES if screen.width >= WIDE or title not in ONLY_WIDE]
    for title in figures:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for group in _folded(gpus, sick):
        first = group[0]
        name = safe((first.name.value_or("") or f"({first.name.reason})").removeprefix("NVIDIA "))
        numbers = ranges([gpu.index for gpu in group])
        if first.index in sick:
            problems = sick[first.index]
            color = COLORS[problems[0][0]]
            reasons = ", ".join(dict.fromkeys(safe(short) for _, short in problems))
            cells = [safe(FIGURES[title](first)) for title in figures]
            table.add_row(Text(MARKS[problems[0][0]], color), numbers, name, *cells, Text(reasons, color))
        else:
            cells = [_common([safe(FIGURES[title](gpu)) for gpu in group]) for title in figures]
            table.add_row("", numbers, name, *cells, well)
    show_table(table, screen, gives_way="Name")


def show_processes(gpus: Iterable[Gpu], screen: Console) -> None:
    """Who uses the GPUs, a line a process."""
    for gpu in gpus:
        for process in gpu.processes.value_or(()):
            show(_process_line(gpu, process), screen, style="dim", indent=2)


def _folded(gpus: Iterable[Gpu], sick: dict[int, list[tuple[Severity, str]]]) -> list[list[Gpu]]:
    """Neighbours of one model that are well, together."""
    groups: list[list[Gpu]] = []
    for gpu in gpus:
        last = groups[-1][-1] if groups else None
        alike = last is not None and last.index not in sick and last.name.value_or("") == gpu.name.value_or("")
        if alike and gpu.index not in sick:
            groups[-1].append(gpu)
        else:
            groups.append([gpu])
    return groups


def _common(cells: list[str]) -> str:
    """What all of them have, or nothing: a range would say which has what to nobody."""
    return cells[0] if len({*cells}) == 1 else ".."


def _memory(gpu: Gpu) -> str:
    used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
    return f"{used.value / GIB:.1f}/{total.value / GIB:.1f}" if used.is_read and total.is_read else "?"


def _figure(reading: Reading[int] | Reading[float], form: str) -> str:
    """A figure; "-" where this GPU has none, "?" where it could not be read."""
    if reading.is_read:
        return form.format(reading.value)
    return "-" if reading.missing_kind == "absent" else "?"


FIGURES: dict[str, Callable[[Gpu], str]] = {
    "Memory GiB": _memory,
    "Util": lambda gpu: _figure(gpu.utilization_gpu_percent, "{}%"),
    "Temp": lambda gpu: _figure(gpu.temperature_celsius, "{} C"),
    "Power W": lambda gpu: "/".join(
        _figure(reading, "{:.0f}") for reading in (gpu.power_draw_watts, gpu.power_limit_watts)
    ),
    "PCIe": lambda gpu: f"{_figure(gpu.pcie_generation, 'gen{}')} {_figure(gpu.pcie_width, 'x{}')}",
}
ONLY_WIDE = ("Temp", "Power W")


def _process_line(gpu: Gpu, process: GpuProcess) -> str:
    memory = f"{process.memory_bytes / MIB:.0f} MiB" if process.memory_bytes is not None else "memory unknown"
    user = process.user.value_or("") or "?"
    command = process.command.value_or("") or f"({process.command.reason})"
    own = ", gpudoctor itself" if process.is_own else ""
    return f"GPU {gpu.index}: pid {process.pid}, {user}, {memory}{own}: {command}"
