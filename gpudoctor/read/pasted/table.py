"""The table of plain `nvidia-smi`, of any driver from 367 to 610, also of WSL and Windows, whole or cut.

Columns are told by the bars between them and not by their places, which differ between drivers. A fact of a row that
is not whole is unknown; of the processes, none is told unless their box is closed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gpudoctor.knowledge import pci_address
from gpudoctor.lazy import lazy_re
from gpudoctor.read.nvidia_smi_groups import command_of
from gpudoctor.read.nvidia_smi_values import cuda_version, label, number, why_missing, word
from gpudoctor.read.pasted.part import SILENT, Pasted, ToolOutput, gpu, has_silent
from gpudoctor.snapshot import (
    NEVER_IN_OUTPUT,
    NOT_IN_OUTPUT,
    EccCounts,
    GpuProcess,
    MigDevice,
    Reading,
    missing,
    read,
)

SOURCE = "nvidia-smi"
MIB = 1024**2

TITLE = lazy_re(
    r"\| NVIDIA-SMI \S{1,30} +(?:Driver|KMD) Version: (?P<driver>\S{1,30}) *"
    r"(?:CUDA (?:UMD )?Version: (?P<cuda>\S{1,20}) *)?"
)
GPU_ROW = lazy_re(r"\| {1,4}(?P<index>\d{1,3}) +\S[^|]*\|[^|]*\|[^|]*\|?", re.ASCII)
HEADING = lazy_re(
    rf"{TITLE.pattern}|\| GPU +Name [^|]*\| Bus-Id|\| MIG devices: {{9}}|\| Processes: {{9}}|\|=+[+|]=+"
    r"|\| {1,4}\d{1,3} +\S[^|]*\| *[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d +\S[^|]*\|[^|]*\|",
    re.ASCII,
)
"""By one of these lines a table is known: of what was pasted in part, too."""
BORDER = lazy_re(r"\+-+(?:\+-+)*\+|\|-+(?:\+-+)*\|")
PROCESS = lazy_re(
    r"\s*(?P<gpu>\d{1,3})\s+(?:(?P<instances>(?:\d{1,3}|N/A)\s+(?:\d{1,3}|N/A))\s+)?(?P<pid>\d{1,10})\s+"
    r"(?P<kind>[CGM](?:\+[CGM])*)\s+(?P<rest>\S.*)",
    re.ASCII,
)
MEMORY_OF_A_PROCESS = lazy_re(
    r"(?P<name>.*?)\s*(?P<memory>\b\d{1,8}MiB|N/A|\[?Not Supported\]?|\[?Insufficient Permissions\]?"
    r"|Not available in WDDM driver model)$",
    re.ASCII,
)
NOT_TOLD = lazy_re(r"\s*(?P<gpu>\d{1,3})\s+Not Supported\s*", re.ASCII)
MIG_ROW = lazy_re(r"\s*(?P<gpu>\d{1,3})\s+(?P<gi>\d{1,3})\s+(?P<ci>\d{1,3})\s+(?P<device>\d{1,3})\s*", re.ASCII)
MODES = lazy_re(r"(?P<name>.*\S)\s+(?P<mode>On|Off|N/A|WDDM|TCC|MCDM|ERR!|Unknown Error|\[[\w ]+\])")
PERSISTENCE = {"on": True, "off": False}
COMPUTE_MODES = {
    "default": "default",
    "e. thread": "exclusive-thread",
    "e. process": "exclusive-process",
    "prohibited": "prohibited",
    "prohib.": "prohibited",
}
_WORD = r"N/A|ERR!|Unknown Error|\[?Unknown\]?|Not Supported|GPU is lost|GPU requires reset|-+|\?+"
SENSORS = lazy_re(
    rf"(?P<fan>\d{{1,3}}%|{_WORD})\s+(?P<temperature>-?\d{{1,3}}C|{_WORD})\s+(?P<state>P\d{{1,2}}|{_WORD})\s+"
    rf"(?P<draw>[\d.]{{1,8}}W|{_WORD})\s*/\s*(?P<limit>[\d.]{{1,8}}W|{_WORD})",
    re.ASCII,
)
MEMORY = lazy_re(rf"(?P<used>\d{{1,9}}Mi?B|{_WORD})\s*/\s*(?P<total>\d{{1,9}}Mi?B|{_WORD})", re.ASCII)
LOAD = lazy_re(rf"(?P<busy>\d{{1,3}}%|{_WORD})\s+(?P<compute>\S.*)", re.ASCII)


class GpuRow(NamedTuple):
    """A GPU's lines, of which the second and third may have been cut off."""

    number: int
    lines: tuple[tuple[str, ...], ...]


def parse(block: Pasted) -> ToolOutput:
    """The table in the lines; of several, the first in which a GPU does not answer, else the first."""
    tables = [_table(lines) for lines in _split(block.lines)]
    chosen = next((table for table in tables if has_silent(table.gpus or ())), tables[0])
    if any(_machine(table) != _machine(chosen) for table in tables):
        more = f"there are tables of several machines, of which {len(chosen.gpus or ())} GPUs of one are judged"
        return chosen._replace(lacks=(*chosen.lacks, more))
    return chosen


def _table(lines: tuple[str, ...]) -> ToolOutput:
    rows, is_closed = _rows(lines)
    title = next((match for line in lines if (match := TITLE.match(line))), None)
    has_third = any("MIG M." in line for line in lines) or any(len(row.lines) > 2 for row in rows)
    processes, devices = _processes(lines), _mig_devices(lines)
    counts = _mig_errors(lines)
    gpus = tuple(
        gpu(
            row.number,
            _source(row.number),
            {**_facts(row, has_third=has_third), **_boxes(row, processes, devices), **counts.get(row.number, {})},
        )
        for row in rows
    )
    return ToolOutput(
        SOURCE,
        gpus or None,
        {"init_code": read(SOURCE, 0), **_versions(title)},
        lacks=(
            *_lacks(rows, is_closed=is_closed, has_title=title is not None, has_boxes=processes is not None),
            *(() if rows else _last_words(lines)),
        ),
    )


def _split(lines: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Each table's lines; what stands before the first title is one of its own only where it has GPUs."""
    starts = [place for place, line in enumerate(lines) if TITLE.match(line)]
    if not starts or any(GPU_ROW.match(line) for line in lines[: starts[0]]):
        starts = [0, *starts]
    ends = [*starts[1:], len(lines)]
    return [lines[start:end] for start, end in zip(starts, ends, strict=True)]


def _machine(part: ToolOutput) -> tuple[str, tuple[str, ...]]:
    """By what the same machine is known in a second table."""
    driver = part.nvidia.get("driver_version")
    return driver.value_or("") if driver is not None else "", tuple(
        each.pci_bus_id.value_or("") for each in part.gpus or ()
    )


def _rows(lines: tuple[str, ...]) -> tuple[list[GpuRow], bool]:
    """The rows of the GPUs, and whether the last of them ends with a border."""
    rows: list[GpuRow] = []
    is_open = False
    for line in lines:
        if line.startswith(("| MIG devices:", "| Processes:")):
            break
        if BORDER.fullmatch(line):
            is_open = False
        elif is_open and line.startswith("|") and line.count("|") >= 3:
            if len(rows[-1].lines) < 3:
                rows[-1] = rows[-1]._replace(lines=(*rows[-1].lines, _cells(line)))
        elif (match := GPU_ROW.match(line)) and line.count("|") >= 3:
            rows.append(GpuRow(int(match["index"]), (_cells(line),)))
            is_open = True
    return _each_once(rows), bool(rows) and not is_open


def _each_once(rows: list[GpuRow]) -> list[GpuRow]:
    return list({row.number: row for row in reversed(rows)}.values())[::-1]


def _cells(line: str) -> tuple[str, ...]:
    """What stands between the bars; a cell without a bar at its end was cut."""
    return tuple(cell.strip() for cell in line.split("|")[1:-1])


def _lacks(rows: list[GpuRow], *, is_closed: bool, has_title: bool, has_boxes: bool) -> Iterator[str]:
    if not rows:
        yield "the table ends before its first GPU"
        return
    if not has_title:
        yield "the table begins after its title"
    elif rows[0].number > 0 or [row.number for row in rows] != list(range(len(rows))):
        yield f"the table is a part: it shows {len(rows)} GPUs, numbered up to {rows[-1].number}"
    if not is_closed:
        yield f"the table is cut in GPU {rows[-1].number}"
    elif not has_boxes:
        yield f"the table is cut after GPU {rows[-1].number}: its box of processes is not there or not closed"


def _last_words(lines: tuple[str, ...]) -> Iterator[str]:
    """What a shell said of an nvidia-smi that ended before it had shown a GPU."""
    last = next((line for line in reversed(lines) if line), "")
    if last and not last.startswith(("|", "+")):
        yield f"after it stands {last[:100]!r}: nvidia-smi itself may have crashed, which says nothing of the GPUs"


def _source(index: int) -> str:
    return f"{SOURCE}, GPU {index}"


def _versions(title: re.Match[str] | None) -> Mapping[str, Reading[Any]]:
    if title is None:
        return {}
    versions = {"driver_version": _value(f"{SOURCE}: Driver Version", title["driver"], label)}
    if title["cuda"]:
        versions["cuda_version"] = _value(f"{SOURCE}: CUDA Version", title["cuda"], cuda_version)
    return versions


def _value(where: str, text: str, convert: Callable[[str], Any]) -> Reading[Any]:
    why = why_missing(text)
    if why is not None:
        return Reading(where, missing=why)
    try:
        return read(where, convert(text))
    except ValueError:
        return missing(where, f"unexpected value {text[:40]!r}")


def _facts(row: GpuRow, *, has_third: bool) -> dict[str, Reading[Any]]:
    """What the two or three lines of a GPU say."""
    source = _source(row.number)
    first, second, third = (*row.lines, (), ())[:3]
    return {
        **_identity(source, first),
        **_ecc(source, first),
        **_sensors(source, second),
        **_memory(source, second),
        **_load(source, second),
        **_mig(source, third, is_told=has_third),
    }


def _cut(source: str, *fields: str) -> dict[str, Reading[Any]]:
    return {field: missing(source, NOT_IN_OUTPUT) for field in fields}


def _identity(source: str, cells: tuple[str, ...]) -> dict[str, Reading[Any]]:
    facts: dict[str, Reading[Any]] = {}
    named = MODES.fullmatch(cells[0].partition(" ")[2].strip()) if cells else None
    if named is None:
        facts |= _cut(source, "name", "persistence_mode")
    else:
        facts["name"] = _value(f"{source}: Name", named["name"], label)
        facts["persistence_mode"] = _value(f"{source}: Persistence-M", _mode(named["mode"]), _on)
    if len(cells) < 2 or not cells[1]:
        return facts | _cut(source, "pci_bus_id", "display_active")
    address, _, display = cells[1].partition(" ")
    facts["pci_bus_id"] = _value(f"{source}: Bus-Id", address, pci_address.normalised)
    facts["display_active"] = _value(f"{source}: Disp.A", display.strip() or "N/A", _on)
    return facts


def _mode(text: str) -> str:
    return "N/A" if text in ("WDDM", "TCC", "MCDM") else text  # Windows has driver models instead


def _on(text: str) -> bool:
    return word(text, PERSISTENCE)


def _ecc(source: str, cells: tuple[str, ...]) -> dict[str, Reading[Any]]:
    """A number where ECC is on, else Off or N/A; On for a GPU in MIG mode, whose instances have the numbers."""
    where = f"{source}: Volatile Uncorr. ECC"
    if len(cells) < 3:
        return _cut(source, "ecc_mode", "ecc_volatile")
    text = cells[2]
    if text.casefold() in PERSISTENCE:
        state = "its MIG devices have the number" if text == "On" else "ECC is off"
        return {
            "ecc_mode": read(where, text == "On"),
            "ecc_volatile": missing(where, state, "failed" if text == "On" else "absent"),
        }
    count = _value(where, text, lambda digits: EccCounts(None, int(number(digits, ""))))
    mode = read(where, True) if count.is_read else Reading[bool](where, missing=count.missing)
    return {"ecc_mode": mode, "ecc_volatile": count}


def _sensors(source: str, cells: tuple[str, ...]) -> dict[str, Reading[Any]]:
    fields = {
        "fan_percent": ("fan", "Fan", lambda text: int(number(text, "%"))),
        "temperature_celsius": ("temperature", "Temp", lambda text: int(number(text, "C"))),
        "performance_state": ("state", "Perf", lambda text: int(text[1:])),
        "power_draw_watts": ("draw", "Pwr:Usage", lambda text: number(text, "W")),
        "power_limit_watts": ("limit", "Pwr:Cap", lambda text: number(text, "W")),
    }
    return _matched(source, cells[0] if cells else "", SENSORS, fields)


def _memory(source: str, cells: tuple[str, ...]) -> dict[str, Reading[Any]]:
    fields = {
        "memory_used_bytes": ("used", "Memory-Usage", lambda text: int(number(text, "Mi?B")) * MIB),
        "memory_total_bytes": ("total", "Memory-Usage", lambda text: int(number(text, "Mi?B")) * MIB),
    }
    return _matched(source, cells[1] if len(cells) > 1 else "", MEMORY, fields)


def _load(source: str, cells: tuple[str, ...]) -> dict[str, Reading[Any]]:
    fields = {
        "utilization_gpu_percent": ("busy", "GPU-Util", lambda text: int(number(text, "%"))),
        "compute_mode": ("compute", "Compute M.", lambda text: word(text, COMPUTE_MODES)),
    }
    return _matched(source, cells[2] if len(cells) > 2 else "", LOAD, fields)


def _matched(
    source: str,
    cell: str,
    pattern: re.Pattern[str],
    fields: Mapping[str, tuple[str, str, Callable[[str], Any]]],
) -> dict[str, Reading[Any]]:
    """The values of a cell; where one word stands for them all, each is missing for that reason."""
    match = pattern.fullmatch(cell)
    if match is not None:
        return {
            field: _value(f"{source}: {column}", match[group], convert)
            for field, (group, column, convert) in fields.items()
        }
    silent = SILENT.search(cell)
    one = silent[0] if silent else cell
    if why_missing(one) is not None and cell:
        return {field: _value(f"{source}: {column}", one, label) for field, (_, column, _) in fields.items()}
    if cell:
        return {
            field: missing(f"{source}: {column}", f"unexpected value {cell[:40]!r}")
            for field, (_, column, _) in fields.items()
        }
    return _cut(source, *fields)


def _mig(source: str, cells: tuple[str, ...], *, is_told: bool) -> dict[str, Reading[Any]]:
    """The third line, which drivers since 450 have; a star says that the mode changes with the next reset."""
    where = f"{source}: MIG M."
    if not is_told:
        return dict.fromkeys(("mig_mode", "mig_mode_pending"), missing(where, "not known to this driver", "absent"))
    if len(cells) < 3 or not cells[2]:
        return _cut(source, "mig_mode", "mig_mode_pending")
    mode = _value(where, cells[2].rstrip("*"), lambda text: word(text, {"enabled": True, "disabled": False}))
    changes = cells[2].endswith("*")
    pending = read(where, mode.value != changes) if mode.is_read else Reading[bool](where, missing=mode.missing)
    return {"mig_mode": mode, "mig_mode_pending": pending}


# --- the boxes below the GPUs -------------------------------------------------------------------------------------


def _box(lines: tuple[str, ...], title: str) -> tuple[str, ...] | None:
    """The rows of a box below its double line; None where it is not there, or not closed."""
    begun = next((place for place, line in enumerate(lines) if line.startswith(title)), None)
    if begun is None:
        return None
    ruled = next((place for place in range(begun, len(lines)) if re.match(r"\|=+", lines[place])), None)
    if ruled is None:
        return None
    rows = list[str]()
    for place in range(ruled + 1, len(lines)):
        if not lines[place].startswith("|"):
            ends = re.fullmatch(r"\+-+\+(?:-+\+)*", lines[place])
            if not ends:
                return None
            if place + 1 == len(lines) or not lines[place + 1].startswith("|"):
                return tuple(rows)
        else:
            rows.append(lines[place])
    return None


def _processes(lines: tuple[str, ...]) -> dict[int, list[GpuProcess] | None] | None:
    """Of each GPU that has any; None for a GPU that does not tell. No answer where the box is not whole."""
    box = _box(lines, "| Processes:")
    if box is None:
        return None
    by_gpu: dict[int, list[GpuProcess] | None] = {}
    for line in box:
        inside = line[1:].rstrip().removesuffix("|").rstrip()
        if (untold := NOT_TOLD.fullmatch(inside)) is not None:
            by_gpu[int(untold["gpu"])] = None
        elif (row := PROCESS.fullmatch(inside)) is not None:
            of_gpu = by_gpu.setdefault(int(row["gpu"]), [])
            if of_gpu is not None:
                of_gpu.append(_process(row))
    return by_gpu


def _process(row: re.Match[str]) -> GpuProcess:
    source = f"{_source(int(row['gpu']))}: Processes"
    end = MEMORY_OF_A_PROCESS.fullmatch(row["rest"])
    name, memory = (end["name"], end["memory"]) if end else (row["rest"], "")
    size = re.fullmatch(r"(\d+)MiB", memory, re.ASCII)
    why = why_missing(name)
    return GpuProcess(
        int(row["pid"]),
        "graphics" if row["kind"] == "G" else "compute",
        int(size[1]) * MIB if size else None,
        user=missing(source, NEVER_IN_OUTPUT),
        command=Reading(source, missing=why) if why is not None else command_of(name, source),
    )


def _mig_devices(lines: tuple[str, ...]) -> dict[int, list[MigDevice]] | None:
    box = _box(lines, "| MIG devices:")
    if box is None:
        return None
    by_gpu: dict[int, list[MigDevice]] = {}
    for line in box:
        cells = _cells(line)
        row = MIG_ROW.fullmatch(cells[0]) if cells else None
        if row is None:
            continue
        source = f"{_source(int(row['gpu']))}: MIG device {row['device']}"
        memory = _memory(source, cells)
        never: Reading[Any] = missing(source, NEVER_IN_OUTPUT)
        by_gpu.setdefault(int(row["gpu"]), []).append(
            MigDevice(
                int(row["device"]),
                uuid=never,
                name=never,
                gpu_instance=read(source, int(row["gi"])),
                compute_instance=read(source, int(row["ci"])),
                memory_total_bytes=memory["memory_total_bytes"],
                memory_used_bytes=memory["memory_used_bytes"],
            )
        )
    return by_gpu


def _mig_errors(lines: tuple[str, ...]) -> dict[int, dict[str, Reading[EccCounts]]]:
    """Of a GPU in MIG mode, whose own row has no number: the sum of what its devices count."""
    sums: dict[int, int] = {}
    for line in _box(lines, "| MIG devices:") or ():
        cells = _cells(line)
        row = MIG_ROW.fullmatch(cells[0]) if cells else None
        errors = re.fullmatch(r"\d+\s+(\d{1,9})", cells[2], re.ASCII) if row is not None and len(cells) > 2 else None
        if row is not None and errors is not None:
            sums[int(row["gpu"])] = sums.get(int(row["gpu"]), 0) + int(errors[1])
    return {
        index: {"ecc_volatile": read(f"{_source(index)}: Vol Unc ECC of its MIG devices", EccCounts(None, count))}
        for index, count in sums.items()
    }


def _boxes(
    row: GpuRow, processes: dict[int, list[GpuProcess] | None] | None, devices: dict[int, list[MigDevice]] | None
) -> dict[str, Reading[Any]]:
    source = _source(row.number)
    third = row.lines[2] if len(row.lines) > 2 else ()
    mode = third[2].rstrip("*") if len(third) > 2 else ""
    listed = processes.get(row.number, []) if processes is not None else None
    facts: dict[str, Reading[Any]] = {}
    if processes is None:
        facts["processes"] = missing(f"{source}: Processes", NOT_IN_OUTPUT)
    elif listed is None:
        facts["processes"] = missing(f"{source}: Processes", "not supported by this GPU", "absent")
    else:
        facts["processes"] = read(f"{source}: Processes", tuple(listed))
    where = f"{source}: MIG devices"
    if mode == "Enabled":
        facts["mig_devices"] = (
            missing(where, NOT_IN_OUTPUT) if devices is None else read(where, tuple(devices.get(row.number, ())))
        )
    elif mode == "Disabled":
        facts["mig_devices"] = read(where, ())
    elif mode == "N/A":
        facts["mig_devices"] = missing(where, "nvidia-smi says N/A", "absent")
    return facts
