"""The matrix of `nvidia-smi topo -m`: how GPUs reach each other, and the CPUs near them."""

import re
from typing import Any, NamedTuple

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pasted.part import Pasted, ToolOutput, gpu
from gpudoctor.snapshot import Gpu, NvLink, Reading, TopologyLevel, read

SOURCE = "nvidia-smi topo -m"
HEADING = lazy_re(r"GPU0\s+(?:GPU1|CPU Affinity|NIC0|mlx\w+|NV\d|X|SYS|NODE|PHB|PXB|PIX)(?:\s|$)")
COLUMNS = lazy_re(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
LEVELS = {"PIX": "single", "PXB": "multiple", "PHB": "hostbridge", "NODE": "node", "SYS": "system"}
"""As nvidia-smi's legend explains them -> nvmlGpuTopologyLevel_t."""
BONDED = lazy_re(r"NV(\d{1,2})", re.ASCII)
CPUS = lazy_re(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?){0,200}", re.ASCII)
MOST_CPUS = 10_000
MOST_LINKS = 18
"""NVLinks of an H100 or B200, more than any GPU before: more than that to all peers together go through switches."""


class _Matrix(NamedTuple):
    devices: list[str]
    rows: dict[int, list[str]]
    """The words of each GPU's row, of those that are whole."""


def parse(block: Pasted) -> ToolOutput:
    matrix = _matrix(block.lines)
    numbers = [int(name[3:]) for name in matrix.devices if re.fullmatch(r"GPU\d{1,3}", name, re.ASCII)]
    bonds = {
        number: {
            other: _bonded(matrix.rows[number][matrix.devices.index(f"GPU{other}")])
            for other in numbers
            if other != number
        }
        for number in numbers
        if number in matrix.rows
    }
    is_switched = any(sum(row.values()) > MOST_LINKS for row in bonds.values())
    gpus = tuple(
        _gpu(number, matrix, max(row.values(), default=0) if is_switched else sum(row.values()), any_bond=_any(bonds))
        for number, row in bonds.items()
    )
    lost = [number for number in numbers if number not in matrix.rows]
    lacks = [f"the matrix is cut before GPU {lost[0]}"] if lost else []
    if not matrix.devices:
        lacks.append("the matrix is cut before its first row")
    levels = _levels(numbers, matrix)
    return ToolOutput(
        SOURCE,
        gpus,
        {"topology": read(SOURCE, levels)} if levels else {},
        lacks=tuple(lacks),
        tells="how GPUs are connected",
    )


def _matrix(lines: tuple[str, ...]) -> _Matrix:
    devices: list[str] = []
    rows: dict[int, list[str]] = {}
    for line in lines:
        words = COLUMNS.sub(" ", line).split()
        if not words:
            continue
        if not devices:
            if not COLUMNS.search(line) and (len(words) < 2 or not words[1].startswith(("GPU", "NIC", "mlx"))):
                return _Matrix([], {})
            devices = words
            continue
        row = re.fullmatch(r"GPU(\d{1,3})", words[0], re.ASCII)
        if row is not None and int(row[1]) not in rows:
            cells = words[1:]
            place = devices.index(words[0]) if words[0] in devices else -1
            if len(cells) >= len(devices) and place >= 0 and cells[place] == "X":
                rows[int(row[1])] = cells
    return _Matrix(devices, rows)


def _bonded(word: str) -> int:
    match = BONDED.fullmatch(word)
    return int(match[1]) if match else 0


def _any(bonds: dict[int, dict[int, int]]) -> bool:
    return any(count for row in bonds.values() for count in row.values())


def _gpu(number: int, matrix: _Matrix, links: int, *, any_bond: bool) -> Gpu:
    source = f"{SOURCE}, GPU {number}"
    facts: dict[str, Reading[Any]] = {}
    if any_bond:
        facts["nvlinks"] = read(source, tuple(NvLink(link, True) for link in range(min(links, 64))))
    near = matrix.rows[number][len(matrix.devices) :]
    cpus = _cpus(near[0]) if near else ()
    if cpus:
        facts["cpu_affinity"] = read(source, cpus)
        if len(near) > 1 and re.fullmatch(r"\d{1,3}", near[1], re.ASCII):
            facts["numa_node"] = read(source, int(near[1]))
    return gpu(number, source, facts)


def _cpus(text: str) -> tuple[int, ...]:
    if not CPUS.fullmatch(text):
        return ()
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
        if len(cpus) > MOST_CPUS:
            return ()
    return tuple(cpus)


def _levels(numbers: list[int], matrix: _Matrix) -> tuple[TopologyLevel, ...]:
    """All pairs or none: of GPUs that NVLinks join, the matrix does not tell how the bus joins them."""
    levels = []
    for place, number in enumerate(numbers):
        for other in numbers[place + 1 :]:
            if number not in matrix.rows:
                return ()
            level = LEVELS.get(matrix.rows[number][matrix.devices.index(f"GPU{other}")])
            if level is None:
                return ()
            levels.append(TopologyLevel(number, other, level))
    return tuple(levels)
