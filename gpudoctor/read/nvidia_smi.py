"""The log of `nvidia-smi -q`, of any driver generation and in either form -> Snapshot.

One table says where each fact stands. What the log does not contain stays unread and says so, so a check that
needs it is skipped; what nvidia-smi could not read keeps nvidia-smi's reason.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from gpudoctor import __version__
from gpudoctor.knowledge import pci_address
from gpudoctor.read.nvidia_smi_groups import GROUPS
from gpudoctor.read.nvidia_smi_log import FailedGpu, Log, LogEntry
from gpudoctor.read.nvidia_smi_text import failed_gpus, plain, spaced
from gpudoctor.read.nvidia_smi_values import (
    NVML_TEXTS,
    celsius,
    compute_mode,
    count,
    cuda_version,
    enabled,
    label,
    lanes,
    mebibytes,
    megahertz,
    percent,
    performance_state,
    watts,
    why_missing,
)
from gpudoctor.snapshot import (
    INCOMPLETE,
    NOT_IN_OUTPUT,
    Gpu,
    Missing,
    Nvidia,
    Reading,
    Snapshot,
    UnreadableSnapshot,
    missing,
    read,
)
from gpudoctor.snapshot.section import Section

NOT_THERE = NOT_IN_OUTPUT

S = TypeVar("S", bound=msgspec.Struct)


class SmiField(NamedTuple):
    """A field of `Gpu`, and where it stands in the text or the XML form; the first that has a value counts."""

    field: str
    convert: Callable[[str], Any]
    paths: tuple[str, ...]


PLACES = (
    SmiField("name", label, ("product name",)),
    SmiField("uuid", label, ("gpu uuid", "uuid")),
    SmiField("serial", label, ("serial number", "serial")),
    SmiField("minor_number", count, ("minor number",)),
    SmiField("vbios_version", label, ("vbios version",)),
    SmiField("gsp_firmware_version", label, ("gsp firmware version",)),
    SmiField("memory_total_bytes", mebibytes, ("fb memory usage/total",)),
    SmiField("memory_used_bytes", mebibytes, ("fb memory usage/used",)),
    SmiField("memory_free_bytes", mebibytes, ("fb memory usage/free",)),
    SmiField("memory_reserved_bytes", mebibytes, ("fb memory usage/reserved",)),
    SmiField("utilization_gpu_percent", percent, ("utilization/gpu", "utilization/gpu util")),
    SmiField("utilization_memory_percent", percent, ("utilization/memory", "utilization/memory util")),
    SmiField("temperature_celsius", celsius, ("temperature/gpu current temp", "temperature/gpu temp")),
    SmiField("memory_temperature_celsius", celsius, ("temperature/memory current temp", "temperature/memory temp")),
    SmiField(
        "power_draw_watts",  # one value until 580, then two, of which some GPUs have only the second
        watts,
        (
            "gpu power readings/power draw",
            "gpu power readings/average power draw",
            "gpu power readings/instantaneous power draw",
            "power readings/power draw",
            "gpu power readings/instant power draw",
        ),
    ),
    SmiField(
        "power_limit_watts",
        watts,
        (
            "gpu power readings/current power limit",
            "gpu power readings/gpu ceiling power limit/current power limit",
            "power readings/enforced power limit",
        ),
    ),
    SmiField(
        "power_limit_default_watts",
        watts,
        (
            "gpu power readings/default power limit",
            "gpu power readings/gpu ceiling power limit/default power limit",
            "power readings/default power limit",
        ),
    ),
    SmiField("clock_sm_mhz", megahertz, ("clocks/sm", "clocks/sm clock")),
    SmiField("clock_sm_max_mhz", megahertz, ("max clocks/sm", "max clocks/sm clock")),
    SmiField("clock_memory_mhz", megahertz, ("clocks/memory", "clocks/mem clock")),
    SmiField("clock_memory_max_mhz", megahertz, ("max clocks/memory", "max clocks/mem clock")),
    SmiField("fan_percent", percent, ("fan speed",)),
    SmiField("performance_state", performance_state, ("performance state",)),
    SmiField("ecc_mode", enabled, ("ecc mode/current", "ecc mode/current ecc")),
    SmiField("ecc_mode_pending", enabled, ("ecc mode/pending", "ecc mode/pending ecc")),
    SmiField(
        "pcie_generation",
        count,
        ("pci/gpu link info/pcie generation/current", "pci/pci gpu link info/pcie gen/current link gen"),
    ),
    SmiField(
        "pcie_generation_max",
        count,
        ("pci/gpu link info/pcie generation/max", "pci/pci gpu link info/pcie gen/max link gen"),
    ),
    SmiField(
        "pcie_width",
        lanes,
        ("pci/gpu link info/link width/current", "pci/pci gpu link info/link widths/current link width"),
    ),
    SmiField(
        "pcie_width_max",
        lanes,
        ("pci/gpu link info/link width/max", "pci/pci gpu link info/link widths/max link width"),
    ),
    SmiField("pcie_replays", count, ("pci/replays since reset", "pci/replay counter")),
    SmiField("persistence_mode", enabled, ("persistence mode",)),
    SmiField("compute_mode", compute_mode, ("compute mode",)),
    SmiField("display_active", enabled, ("display active",)),
    SmiField("mig_mode", enabled, ("mig mode/current", "mig mode/current mig")),
    SmiField("mig_mode_pending", enabled, ("mig mode/pending", "mig mode/pending mig")),
    SmiField(
        "vgpu_licence",
        label,
        ("vgpu software licensed product/license status", "grid licensed product/license status"),
    ),
)

MAXIMUM_GPUS = 256
"""Machines with 16 GPUs are rare; more than this is no output of nvidia-smi."""

NEWER_THAN = {"recovery_action": 565, "fabric": 525}
"""The first driver branch that can know the fact at all (by recorded `nvidia-smi -q`): older ones lack such a thing."""


MESSAGE = "a message of nvidia-smi"
MESSAGES: tuple[tuple[re.Pattern[str], int | None], ...] = (
    (spaced(r"Failed to (?:initialize|properly shut down) NVML: (?P<why>" + "|".join(NVML_TEXTS) + ")"), None),
    (spaced(r"Failed to (?:initialize|properly shut down) NVML: (?P<why>[^\n]{1,100})"), None),
    (spaced(r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver"), 9),
    (spaced(r"couldn't find libnvidia-ml\.so"), 12),
    (spaced(r"^[ \t>|*`]*No devices were found[ \t.*`]*$"), 0),
    (spaced(r"nvidia-container-cli: [^\n]{0,60}nvml error: (?P<why>" + "|".join(NVML_TEXTS) + ")"), None),
)
"""What nvidia-smi says when there is nothing to query -> nvmlReturn_t of nvmlInit; None: named in the message."""
ALONE = (
    (spaced(r"(?P<why>driver/library version mismatch|gpu access blocked by the operating system)"), None),
    (
        spaced(
            r"\A(?:```\w{0,20}\n)?(?:[^\n]{0,150}nvidia-smi[^\n]{0,50}\n)?[\s>*`'\"]{0,40}"
            r"(?P<why>insufficient permissions|unknown error)[\s.*`]{0,40}\Z"
        ),
        None,
    ),
)
"""Texts of NVML as people quote them with nothing before them: where nothing else is in a text."""


def to_snapshot(log: Log) -> Snapshot:
    """Everything that the log says. Raises `UnreadableSnapshot` for more GPUs than a machine has."""
    if len(log.gpus) + len(log.failed) > MAXIMUM_GPUS:
        raise UnreadableSnapshot(f"it lists more than {MAXIMUM_GPUS} GPUs, which no machine has")
    driver = _header(log, ("kmd version", "driver version"), label)
    gpus = _gpus(log, driver)
    nvidia = unread(Nvidia, log.form)
    return msgspec.structs.replace(
        unread(Snapshot, log.form),
        gpudoctor=__version__,
        origin=_origin(log, driver),
        taken_at=_taken_at(log),
        nvidia=msgspec.structs.replace(
            nvidia,
            init_code=read(log.form, 0),
            driver_version=driver,
            cuda_version=_header(log, ("cuda umd version", "cuda version"), cuda_version),
            gpus=gpus,
            attached=_header(log, ("attached gpus",), count),
        ),
    )


def from_messages(text: str, *, is_alone: bool) -> Snapshot | None:
    """What a file says in which nvidia-smi complains; None when it does not. `is_alone`: nothing else is in it.

    Raises `UnreadableSnapshot` as `to_snapshot` does.

    The GPUs that it could not open are in the snapshot; which others there are, the message does not say.
    """
    failed = failed_gpus(text)
    if len(failed) > MAXIMUM_GPUS:
        raise UnreadableSnapshot(f"it names more than {MAXIMUM_GPUS} GPUs, which no machine has")
    if failed:
        gpus = tuple(_failed_gpu(MESSAGE, index, gpu) for index, gpu in enumerate(failed))
        return _of_message(0, read(MESSAGE, gpus))
    for pattern, code in (*MESSAGES, *(ALONE if is_alone else ())):
        match = pattern.search(text)
        if match is None:
            continue
        sentence = " ".join(match[0].split())
        if code is None:
            code = NVML_TEXTS.get(plain(match["why"]).strip(" .").casefold(), NVML_TEXTS["unknown error"])
        return _of_message(code, read(MESSAGE, ()) if code == 0 else missing(MESSAGE, sentence[:200]))
    return None


def _of_message(init_code: int, gpus: Reading[tuple[Gpu, ...]]) -> Snapshot:
    nvidia = msgspec.structs.replace(unread(Nvidia, MESSAGE), init_code=read(MESSAGE, init_code), gpus=gpus)
    return msgspec.structs.replace(unread_snapshot(MESSAGE), nvidia=nvidia)


def unread_snapshot(origin: str) -> Snapshot:
    """The machine of which a file says nothing."""
    return msgspec.structs.replace(unread(Snapshot, origin), gpudoctor=__version__, origin=origin)


def unread(structure: type[S], source: str) -> S:
    """A part of a snapshot of which the source says nothing; facts that nobody asked for stay so."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(structure):
        default = field.default
        if isinstance(default, Reading):
            fields[field.name] = missing(source, NOT_THERE, default.missing_kind or "failed")
        elif isinstance(default, Section):
            fields[field.name] = unread(type(default), source)
    return structure(**fields)


def _origin(log: Log, driver: Reading[str]) -> str:
    parts = [f"driver {driver.value}"] if driver.is_read else []
    attached = _header(log, ("attached gpus",), count).value_or(None)
    shown = len(log.gpus) + len(log.failed)
    if attached is not None and attached != shown:
        parts.append(f"{shown} of {attached} GPUs")
    if log.number_of_logs > 1:
        which = "first of" if log.number == 1 else f"number {log.number} of"
        parts.append(f"{which} {log.number_of_logs} logs")
    return log.form + (f" ({', '.join(parts)})" if parts else "")


def _taken_at(log: Log) -> Reading[str]:
    local = log.header.at("timestamp")
    if local is None:
        return missing(log.form, NOT_THERE)
    return missing(f"{log.form}, Timestamp", f"{local.value[:40]} in a time zone that nvidia-smi does not name")


def _header(log: Log, names: Iterable[str], convert: Callable[[str], Any]) -> Reading[Any]:
    return _reading(log.header, tuple(names), convert, log.form)


def _gpus(log: Log, driver: Reading[str]) -> Reading[tuple[Gpu, ...]]:
    by_address: list[tuple[str, LogEntry | FailedGpu]] = [(_sorting_address(gpu), gpu) for gpu in log.gpus]
    addresses = {address for address, _ in by_address}
    lost = [gpu for gpu in log.failed if not gpu.pci_bus_id or _normalised(gpu.pci_bus_id) not in addresses]
    by_address += [(_normalised(gpu.pci_bus_id), gpu) for gpu in lost if gpu.pci_bus_id]
    if lost:
        by_address.sort(key=lambda pair: pair[0])  # NVML counts GPUs in the order of their PCI addresses
    for gpu in lost:
        if not gpu.pci_bus_id:
            by_address.insert(gpu.number if gpu.number is not None else len(by_address), ("", gpu))
    attached = _header(log, ("attached gpus",), count)
    if not by_address and attached.value_or(0) != 0:
        return missing(log.form, f"it says that {attached.value} GPUs are attached, and ends before the first")
    if not by_address and not attached.is_read:
        return missing(log.form, "it ends before the first GPU")
    return read(
        log.form,
        tuple(
            _gpu(log, index, gpu, driver) if isinstance(gpu, LogEntry) else _failed_gpu(log.form, index, gpu)
            for index, (_, gpu) in enumerate(by_address)
        ),
    )


def _gpu(log: Log, index: int, entry: LogEntry, driver: Reading[str]) -> Gpu:
    source = f"{log.form}, GPU {index}"
    fields: dict[str, Reading[Any]] = {}
    for place in PLACES:
        fields[place.field] = _reading(entry, place.paths, place.convert, source)
    for name, group in GROUPS.items():
        try:
            fields[name] = group(entry, source)
        except ValueError:
            fields[name] = missing(source, f"the section of {name} {INCOMPLETE}")
    fields["pci_bus_id"] = _pci_bus_id(entry, source)
    if any(_normalised(address) == fields["pci_bus_id"].value_or("") for address in log.corrupted_inforoms):
        fields["inforom_valid"] = read(f"{source}: infoROM is corrupted", False)
    for name, branch in NEWER_THAN.items():
        if fields[name].reason == NOT_THERE and _branch(driver) < branch:
            fields[name] = missing(source, f"not known to drivers before {branch}", "absent")
    return msgspec.structs.replace(unread_gpu(index, source), **fields)


def unread_gpu(index: int, source: str, why: Missing | None = None) -> Gpu:
    """A GPU of which nothing is known, for that reason."""
    reading: Reading[Any] = Reading(source, missing=why or Missing(NOT_THERE))
    return Gpu(index, **{name: reading for name in Gpu.__struct_fields__ if name != "index"})


def _failed_gpu(source: str, index: int, gpu: FailedGpu) -> Gpu:
    sentence = gpu.reason.partition(".")[0].strip()
    known = why_missing(sentence)
    why = Missing(
        f"nvidia-smi could not open GPU {gpu.pci_bus_id or index}: {gpu.reason or 'no reason given'}",
        known.kind if known is not None and known.kind != "absent" else "failed",
    )
    reading = unread_gpu(gpu.number if gpu.number is not None else index, source, why)
    if not gpu.pci_bus_id or why.kind == "lost":
        return reading
    return msgspec.structs.replace(reading, pci_bus_id=read(source, _normalised(gpu.pci_bus_id)))


def _pci_bus_id(entry: LogEntry, source: str) -> Reading[str]:
    inner = entry.at("pci/bus id") or entry.at("pci/pci bus id")
    for address in (entry.value, inner.value if inner is not None else ""):
        try:
            return read(f"{source}: Bus Id", pci_address.normalised(address))
        except ValueError:
            continue
    return missing(source, NOT_THERE)


def _reading(entry: LogEntry, paths: tuple[str, ...], convert: Callable[[str], Any], source: str) -> Reading[Any]:
    """The first path that has a value; else why the first that is there has none."""
    unreadable: list[Reading[Any]] = []
    for path in paths:
        log_entry = entry.at(path)
        if log_entry is None:
            continue
        where = f"{source}: {path}"
        why = why_missing(log_entry.value)
        if why is not None:
            unreadable.append(Reading(where, missing=why))
            continue
        try:
            return read(where, convert(log_entry.value))
        except ValueError:
            unreadable.append(missing(where, f"unexpected value {log_entry.value[:40]!r}"))
    return unreadable[0] if unreadable else missing(source, NOT_THERE)


def _sorting_address(gpu: LogEntry) -> str:
    return _pci_bus_id(gpu, "").value_or("")


def _normalised(address: str) -> str:
    try:
        return pci_address.normalised(address)
    except ValueError:
        return ""


def _branch(driver: Reading[str]) -> float:
    """The driver's branch (535 of 535.54.03); infinite when unknown, for then nothing follows from it."""
    branch = driver.value_or("").partition(".")[0]
    return int(branch) if branch.isdecimal() and len(branch) < 5 else float("inf")
