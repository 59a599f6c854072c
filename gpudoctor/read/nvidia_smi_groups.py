"""The facts of `nvidia-smi -q` that several values make together: ECC counts, processes, MIG devices and the like.

Each function gives one field of `Gpu` from a GPU's section, text or XML. It raises `ValueError` where the section
is not whole, for half a list or half a sum would be a wrong one.
"""

from collections.abc import Callable
from typing import Any

from gpudoctor.read.nvidia_smi_log import LogEntry
from gpudoctor.read.nvidia_smi_values import (
    CLOCK_EVENT_REASONS,
    FABRIC_STATES,
    NVML_TEXTS,
    RECOVERY_ACTIONS,
    active,
    celsius,
    count,
    enabled,
    label,
    mebibytes,
    why_missing,
    word,
    yes,
)
from gpudoctor.snapshot import (
    EccCounts,
    Fabric,
    GpuProcess,
    MigDevice,
    Missing,
    Reading,
    RemappedRows,
    RetiredPages,
    missing,
    read,
)

NOT_THERE = "not in this output"


def first(entry: LogEntry, *paths: str) -> LogEntry | None:
    """The entry at the first of the paths that exists. Raises `ValueError` for one that the file ends in."""
    found = next((found for path in paths if (found := entry.at(path)) is not None), None)
    if found is not None and found.is_cut:
        raise ValueError
    return found


def _whole_section(section: LogEntry | None, source: str) -> Reading[Any] | None:
    """Why a section has nothing to give; None when it is there."""
    if section is None:
        return missing(source, NOT_THERE)
    if section.children:
        return None
    why = why_missing(section.value)
    return Reading(source, missing=why or Missing(f"unexpected value {section.value[:40]!r}"))


def _all_missing(entries: list[LogEntry]) -> Missing | None:
    """The reason, when none of the values is one."""
    reasons = [why_missing(entry.value) for entry in entries]
    return reasons[0] if reasons and all(reason is not None for reason in reasons) else None


def _needed(section: LogEntry, *paths: str) -> LogEntry:
    found = first(section, *paths)
    if found is None:
        raise ValueError
    return found


def ecc(counter: str) -> Callable[[LogEntry, str], Reading[EccCounts]]:
    """ECC counts: one total per kind of error before Turing, SRAM and DRAM apart since."""

    def counts(gpu: LogEntry, source: str) -> Reading[EccCounts]:
        where = f"{source}: ECC errors, {counter}"
        section = first(gpu, f"ecc errors/{counter}", f"ecc_errors/{counter}")
        absence = _whole_section(section, where)
        if section is None or absence is not None:
            return absence or missing(where, NOT_THERE)
        corrected, uncorrected = _ecc_entries(section)
        why = _all_missing(corrected + uncorrected)
        if why is not None:
            return Reading(where, missing=why)
        return read(where, EccCounts(_sum(corrected), _sum(uncorrected)))

    return counts


def _ecc_entries(section: LogEntry) -> tuple[list[LogEntry], list[LogEntry]]:
    if first(section, "single bit", "single_bit") is not None:
        single = _needed(section, "single bit/total", "single_bit/total")
        return [single], [_needed(section, "double bit/total", "double_bit/total")]
    corrected = [
        _needed(section, "sram correctable", "sram_correctable"),
        _needed(section, "dram correctable", "dram_correctable"),
    ]
    uncorrected = [_needed(section, "dram uncorrectable", "dram_uncorrectable")]
    whole = first(section, "sram uncorrectable", "sram_uncorrectable")
    if whole is not None:
        return corrected, [*uncorrected, whole]
    return corrected, [
        *uncorrected,
        _needed(section, "sram uncorrectable parity", "sram_uncorrectable_parity"),
        _needed(section, "sram uncorrectable sec-ded", "sram_uncorrectable_secded"),
    ]


def _sum(entries: list[LogEntry]) -> int:
    """The sum of those that the GPU has; one that could not be read spoils it."""
    total = 0
    for entry in entries:
        why = why_missing(entry.value)
        if why is None:
            total += count(entry.value)
        elif why.kind != "absent":
            raise ValueError
    return total


def remapped_rows(gpu: LogEntry, source: str) -> Reading[RemappedRows]:
    where = f"{source}: remapped rows"
    section = first(gpu, "remapped rows", "remapped_rows")
    absence = _whole_section(section, where)
    if section is None or absence is not None:
        return absence or missing(where, NOT_THERE)
    entries = [
        _needed(section, "correctable error", "remapped_row_corr"),
        _needed(section, "uncorrectable error", "remapped_row_unc"),
        _needed(section, "pending", "remapped_row_pending"),
        _needed(section, "remapping failure occurred", "remapped_row_failure"),
    ]
    why = _all_missing(entries)
    if why is not None:
        return Reading(where, missing=why)
    correctable, uncorrectable, pending, failure = (entry.value for entry in entries)
    return read(where, RemappedRows(count(correctable), count(uncorrectable), yes(pending), yes(failure)))


def retired_pages(gpu: LogEntry, source: str) -> Reading[RetiredPages]:
    where = f"{source}: retired pages"
    section = first(gpu, "retired pages", "retired_pages")
    absence = _whole_section(section, where)
    if section is None or absence is not None:
        return absence or missing(where, NOT_THERE)
    entries = [
        _needed(section, "single bit ecc", "multiple_single_bit_retirement/retired_count"),
        _needed(section, "double bit ecc", "double_bit_retirement/retired_count"),
        _needed(section, "pending page blacklist", "pending", "pending_blacklist", "pending_retirement"),
    ]
    why = _all_missing(entries)
    if why is not None:
        return Reading(where, missing=why)
    single, double, pending = (entry.value for entry in entries)
    return read(where, RetiredPages(count(single), count(double), yes(pending)))


def clock_event_reasons(gpu: LogEntry, source: str) -> Reading[int]:
    """The reasons as NVML's bit mask; "throttle" reasons until driver 535."""
    where = f"{source}: clocks event reasons"
    section = first(
        gpu, "clocks event reasons", "clocks throttle reasons", "clocks_event_reasons", "clocks_throttle_reasons"
    )
    absence = _whole_section(section, where)
    if section is None or absence is not None:
        return absence or missing(where, NOT_THERE)
    entries = {
        _reason_name(entry): entry
        for child in section.children
        for entry in (child, *child.children)  # hardware slowdowns are listed below their sum
    }
    if not {"sw power cap", "hw slowdown", "sw thermal slowdown"} <= entries.keys():
        raise ValueError
    why = _all_missing(list(entries.values()))
    if why is not None:
        return Reading(where, missing=why)
    mask = 0
    for name, bit in CLOCK_EVENT_REASONS.items():
        entry = entries.get(name)
        if entry is not None and why_missing(entry.value) is None and active(entry.value):
            mask |= bit
    return read(where, mask)


def _reason_name(entry: LogEntry) -> str:
    name = entry.name.removeprefix("clocks_event_reason_").removeprefix("clocks_throttle_reason_").replace("_", " ")
    return {"gpu idle": "idle", "display clocks setting": "display clock setting"}.get(name, name)


def fabric(gpu: LogEntry, source: str) -> Reading[Fabric]:
    where = f"{source}: fabric"
    section = first(gpu, "fabric")
    absence = _whole_section(section, where)
    if section is None or absence is not None:
        return absence or missing(where, NOT_THERE)
    state, status = _needed(section, "state"), _needed(section, "status")
    why = why_missing(state.value)
    if why is not None and state.value.casefold() not in FABRIC_STATES:
        return Reading(where, missing=why)
    number = word(state.value, FABRIC_STATES)
    # The status means something only once the registration has ended.
    return read(where, Fabric(number, word(status.value, NVML_TEXTS) if number == FABRIC_STATES["completed"] else 0))


def recovery_action(gpu: LogEntry, source: str) -> Reading[int]:
    """What the driver wants done; before it had a name for that (565), whether it wanted a reset."""
    where = f"{source}: GPU recovery action"
    entry = first(gpu, "gpu recovery action", "gpu_recovery_action")
    if entry is not None:
        why = why_missing(entry.value)
        return Reading(where, missing=why) if why is not None else read(where, word(entry.value, RECOVERY_ACTIONS))
    for action, *paths in (
        (1, "gpu reset status/reset required", "gpu_reset_status/reset_required"),
        (4, "gpu reset status/drain and reset recommended", "gpu_reset_status/drain_and_reset_recommended"),
    ):
        entry = first(gpu, *(str(path) for path in paths))
        if entry is not None and entry.value.casefold() == "yes":
            return read(f"{source}: {paths[0]}", int(action))
    return missing(where, NOT_THERE)


def slowdown(gpu: LogEntry, source: str) -> Reading[int]:
    return _threshold(gpu, source, "slowdown", "slow")


def shutdown(gpu: LogEntry, source: str) -> Reading[int]:
    return _threshold(gpu, source, "shutdown", "max")


def _threshold(gpu: LogEntry, source: str, word_in_text: str, word_in_xml: str) -> Reading[int]:
    """A threshold in degrees; since Ada nvidia-smi gives only how far the GPU is from it (T.Limit, a margin)."""
    where = f"{source}: GPU {word_in_text} temp"
    plain = first(gpu, f"temperature/gpu {word_in_text} temp", f"temperature/gpu_temp_{word_in_xml}_threshold")
    if plain is not None:
        why = why_missing(plain.value)
        return Reading(where, missing=why) if why is not None else read(where, celsius(plain.value))
    margin = first(
        gpu, "temperature/gpu t.limit temp", "temperature/gpu current t.limit temp", "temperature/gpu_temp_tlimit"
    )
    limit = first(
        gpu,
        f"temperature/gpu {word_in_text} t.limit temp",
        f"temperature/gpu_temp_{word_in_xml}_tlimit_threshold",
    )
    temperature = first(gpu, "temperature/gpu current temp", "temperature/gpu_temp")
    if margin is None or limit is None or temperature is None:
        return missing(where, NOT_THERE)
    why = _all_missing([margin]) or _all_missing([limit]) or _all_missing([temperature])
    if why is not None:
        return Reading(where, missing=why)
    return read(
        f"{where}, from the current temperature and T.Limit",
        celsius(temperature.value) + celsius(margin.value) - celsius(limit.value),
    )


def memory_temperature_max(gpu: LogEntry, source: str) -> Reading[int]:
    where = f"{source}: memory max operating temp"
    plain = first(gpu, "temperature/memory max operating temp", "temperature/gpu_temp_max_mem_threshold")
    margin = first(
        gpu, "temperature/memory max operating t.limit temp", "temperature/gpu_temp_max_mem_tlimit_threshold"
    )
    entry = plain or margin
    if entry is None:
        return missing(where, NOT_THERE)
    why = why_missing(entry.value)
    if why is not None:
        return Reading(where, missing=why)
    if plain is None:
        return missing(where, "this GPU gives it as a margin (T.Limit), from which no temperature follows")
    return read(where, celsius(plain.value))


def sram_threshold_exceeded(gpu: LogEntry, source: str) -> Reading[bool]:
    where = f"{source}: SRAM threshold exceeded"
    entry = first(gpu, "ecc errors/aggregate/sram threshold exceeded", "ecc_errors/aggregate/sram_threshold_exceeded")
    if entry is not None:
        why = why_missing(entry.value)
        return Reading(where, missing=why) if why is not None else read(where, yes(entry.value))
    # The threshold came together with counting parity and SEC-DED errors apart; one count of both means there is none.
    one_count = first(gpu, "ecc errors/aggregate/sram uncorrectable", "ecc_errors/aggregate/sram_uncorrectable")
    if one_count is not None or first(gpu, "ecc errors/aggregate/single bit", "ecc_errors/aggregate/single_bit"):
        return missing(where, "not reported by this GPU and driver", "absent")
    return missing(where, NOT_THERE)


def mig_devices(gpu: LogEntry, source: str) -> Reading[tuple[MigDevice, ...]]:
    where = f"{source}: MIG devices"
    mode = first(gpu, "mig mode/current", "mig_mode/current_mig")
    if mode is None:
        return missing(where, NOT_THERE)
    why = why_missing(mode.value)
    if why is not None:
        return Reading(where, missing=why)
    if not enabled(mode.value):
        return read(where, ())
    sections = [*gpu.named("mig device")]
    container = first(gpu, "mig_devices")
    if container is not None:
        sections += container.named("mig_device")
    elif gpu.children[-1].name in ("mig device", "mig mode"):
        raise ValueError  # more stands below a whole list: the log was cut
    return read(where, tuple(_mig_device(place, section, where) for place, section in enumerate(sections)))


def _mig_device(place: int, section: LogEntry, source: str) -> MigDevice:
    def value(convert: Callable[[str], int], *paths: str) -> Reading[int]:
        entry = first(section, *paths)
        if entry is None:
            return missing(source, NOT_THERE)
        why = why_missing(entry.value)
        return Reading(source, missing=why) if why is not None else read(source, convert(entry.value))

    not_told = missing(source, "nvidia-smi -q does not name it; nvidia-smi -L does")
    return MigDevice(
        value(count, "index").value_or(place),
        uuid=not_told,
        name=not_told,
        gpu_instance=value(count, "gpu instance id", "gpu_instance_id"),
        compute_instance=value(count, "compute instance id", "compute_instance_id"),
        memory_total_bytes=value(
            mebibytes, "shared fb memory usage/total", "fb memory usage/total", "fb_memory_usage/total"
        ),
        memory_used_bytes=value(
            mebibytes, "shared fb memory usage/used", "fb memory usage/used", "fb_memory_usage/used"
        ),
    )


def processes(gpu: LogEntry, source: str) -> Reading[tuple[GpuProcess, ...]]:
    where = f"{source}: processes"
    section = first(gpu, "processes")
    if section is None:
        return missing(where, NOT_THERE)
    if not section.children and section.value.casefold() in ("none", ""):
        # The text form says None; the XML form has an empty element.
        return read(where, ())
    absence = _whole_section(section, where)
    if absence is not None:
        return absence
    found = [*section.named("process id"), *section.named("process_info")]
    return read(where, tuple(_process(process, where) for process in found))


def _process(process: LogEntry, source: str) -> GpuProcess:
    pid = first(process, "pid") or process
    kind = _needed(process, "type").value.split("+")
    name = _needed(process, "name", "process_name").value
    memory = _needed(process, "used gpu memory", "used_memory").value
    if not kind or not set(kind) <= {"C", "G", "M"}:
        raise ValueError
    why = why_missing(name)
    return GpuProcess(
        count(pid.value),
        "compute" if "C" in kind or "M" in kind else "graphics",
        None if why_missing(memory) is not None else mebibytes(memory),
        user=missing(source, NOT_THERE),
        command=Reading(source, missing=why) if why is not None else read(source, label(name)),
    )


GROUPS: dict[str, Callable[[LogEntry, str], Reading[Any]]] = {
    "ecc_volatile": ecc("volatile"),
    "ecc_aggregate": ecc("aggregate"),
    "remapped_rows": remapped_rows,
    "retired_pages": retired_pages,
    "clock_event_reasons": clock_event_reasons,
    "fabric": fabric,
    "sram_threshold_exceeded": sram_threshold_exceeded,
    "memory_temperature_max_celsius": memory_temperature_max,
    "recovery_action": recovery_action,
    "temperature_slowdown_celsius": slowdown,
    "temperature_shutdown_celsius": shutdown,
    "mig_devices": mig_devices,
    "processes": processes,
}
"""Field of `Gpu` -> what reads it."""
