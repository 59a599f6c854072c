"""The table of `nvidia-smi --query-gpu=... --format=csv`: what was asked for, of each GPU, in nvidia-smi's words.

Source: `nvidia-smi --help-query-gpu` of drivers 367 to 610. Without its heading (noheader) it tells nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gpudoctor.command import is_a
from gpudoctor.knowledge import pci_address
from gpudoctor.lazy import lazy_re
from gpudoctor.read.nvidia_smi_values import MIB, compute_mode, enabled, label, performance_state, why_missing
from gpudoctor.read.pasted.part import Pasted, ToolOutput, gpu
from gpudoctor.snapshot import EccCounts, Gpu, Reading, missing, read

SOURCE = "nvidia-smi --query-gpu"
HEADING = lazy_re(
    r"(?=.*\b(?:memory\.(?:total|used|free)|utilization\.(?:gpu|memory)|driver_version|pci\.bus_id|temperature\.gpu|ecc\.|"
    r"power\.draw|clocks[._]|gpu_(?:name|bus_id|uuid)|vbios_version|fan\.speed|pcie\.link)|index, ?(?:name|uuid))"
    r"(?!.*\bpid\b)[a-z][a-z0-9_.]*(?: \[[^\]\n]*\])?(?:, ?[a-z][a-z0-9_.]*(?: \[[^\]\n]*\])?){1,80}$"
)
NUMBER = lazy_re(r"(?P<number>-?\d{1,12}(?:\.\d{1,6})?)(?: ?(?:MiB|%|W|MHz|C))?$")


def _number(value: str) -> float:
    match = NUMBER.match(value)
    if match is None:
        raise ValueError
    return float(match["number"])


def _whole(value: str) -> int:
    return int(_number(value))


def _bytes(value: str) -> int:
    return _whole(value) * MIB


def _errors(value: str) -> EccCounts:
    return EccCounts(None, _whole(value))


FIELDS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "name": ("name", label),
    "gpu_name": ("name", label),
    "uuid": ("uuid", label),
    "gpu_uuid": ("uuid", label),
    "serial": ("serial", label),
    "vbios_version": ("vbios_version", label),
    "pci.bus_id": ("pci_bus_id", pci_address.normalised),
    "gpu_bus_id": ("pci_bus_id", pci_address.normalised),
    "memory.total": ("memory_total_bytes", _bytes),
    "memory.used": ("memory_used_bytes", _bytes),
    "memory.free": ("memory_free_bytes", _bytes),
    "memory.reserved": ("memory_reserved_bytes", _bytes),
    "utilization.gpu": ("utilization_gpu_percent", _whole),
    "utilization.memory": ("utilization_memory_percent", _whole),
    "temperature.gpu": ("temperature_celsius", _whole),
    "temperature.memory": ("memory_temperature_celsius", _whole),
    "power.draw": ("power_draw_watts", _number),
    "power.limit": ("power_limit_watts", _number),
    "enforced.power.limit": ("power_limit_watts", _number),
    "power.default_limit": ("power_limit_default_watts", _number),
    "clocks.sm": ("clock_sm_mhz", _whole),
    "clocks.max.sm": ("clock_sm_max_mhz", _whole),
    "clocks.mem": ("clock_memory_mhz", _whole),
    "fan.speed": ("fan_percent", _whole),
    "pstate": ("performance_state", performance_state),
    "ecc.mode.current": ("ecc_mode", enabled),
    "ecc.mode.pending": ("ecc_mode_pending", enabled),
    "ecc.errors.uncorrected.volatile.total": ("ecc_volatile", _errors),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_aggregate", _errors),
    "pcie.link.gen.current": ("pcie_generation", _whole),
    "pcie.link.gen.max": ("pcie_generation_max", _whole),
    "pcie.link.width.current": ("pcie_width", _whole),
    "pcie.link.width.max": ("pcie_width_max", _whole),
    "persistence_mode": ("persistence_mode", enabled),
    "compute_mode": ("compute_mode", compute_mode),
    "display_active": ("display_active", enabled),
    "mig.mode.current": ("mig_mode", enabled),
    "mig.mode.pending": ("mig_mode_pending", enabled),
    "clocks_throttle_reasons.active": ("clock_event_reasons", lambda value: int(value, 16)),
    "clocks_event_reasons.active": ("clock_event_reasons", lambda value: int(value, 16)),
}
"""Its names -> the field of `Gpu`, and what reads the value."""
IDENTITY = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
MOST = 64
"""Rows of a table that does not say of which GPU each is: more is no machine, but a watch."""


def parse(block: Pasted) -> ToolOutput:
    columns, rows, lacks = list[str](), dict[str, dict[str, str]](), list[str]()
    for line in block.lines:
        cells = [cell.strip() for cell in line.split(",")]
        if HEADING.match(line):
            columns = [cell.partition(" [")[0] for cell in cells]
        elif line and len(cells) == len(columns):
            row = dict(zip(columns, cells, strict=True))
            rows[next((row[name] for name in IDENTITY if name in row), str(len(rows)))] = row  # the last of a watch
        elif line:
            break
    if not rows or (block.ends_the_text and len(block.lines[-1].split(",")) != len(columns)):
        lacks.append("the table is cut")
    if not any(name in columns for name in IDENTITY) and len(rows) > MOST:
        rows, lacks = {}, ["it does not say of which GPU a row is"]
    gpus = tuple(_gpu(place, row) for place, row in enumerate(rows.values()))
    driver = next((row["driver_version"] for row in rows.values() if "driver_version" in row), "")
    return ToolOutput(
        SOURCE,
        gpus or None,
        {"driver_version": read(SOURCE, driver)} if is_a("version", driver) else {},
        lacks=tuple(lacks),
        tells="what was asked for",
    )


def _gpu(place: int, row: Mapping[str, str]) -> Gpu:
    index = row.get("index", "")
    number = int(index) if index.isdecimal() and len(index) < 4 else place
    source = f"{SOURCE}, GPU {number}"
    facts: dict[str, Reading[Any]] = {}
    for name, value in row.items():
        field, convert = FIELDS.get(name, ("", str))
        if not field or field in facts:
            continue
        if (why := why_missing(value)) is not None:
            facts[field] = Reading(f"{source}: {name}", missing=why)
            continue
        try:
            facts[field] = read(f"{source}: {name}", convert(value))
        except ValueError:
            facts[field] = missing(f"{source}: {name}", f"unexpected value {value[:40]!r}")
    return gpu(number, source, facts)
