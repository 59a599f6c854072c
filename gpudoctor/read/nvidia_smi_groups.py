"""The facts of `nvidia-smi -q` that several values make together: ECC counts, processes, MIG devices and the like.

Each function gives one field of `Gpu` from a GPU's section, text or XML. It raises `ValueError` where the section
is not whole, for half a list or half a sum would be a wrong one.
"""

from collections.abc import Callable
from typing import Any

from gpudoctor.read.nvidia_smi_log import LogEntry
from gpudoctor.read.nvidia_smi_values import (
    CLOCK_EVENT_REASONS,
    FABRIC_HEALTH,
    FABRIC_STATES,
    NVML_TEXTS,
    RECOVERY_ACTIONS,
    active,
    celsius,
    count,
    enabled,
    mebibytes,
    why_missing,
    word,
    yes,
)
from gpudoctor.snapshot import (
    NOT_IN_OUTPUT,
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

NOT_THERE = NOT_IN_OUTPUT


def first(entry: LogEntry, *paths: str) -> LogEntry | None:
    """The entry at the first of the paths that exists. Raises `ValueError` for one that the file ends in."""
    log_entry = next((log_entry for path in paths if (log_entry := entry.at(path)) is not None), None)
    if log_entry is not None and log_entry.is_cut:
        raise ValueError
    return log_entry


LONGEST_COMMAND = 200
Group = Callable[[LogEntry, str], Reading[Any]]


def of_section(what: str, *paths: str) -> Callable[[Callable[[LogEntry], Any]], Group]:
    """A group that has a section of its own: what the function says of that, a value or why there is none."""

    def group(look: Callable[[LogEntry], Any]) -> Group:
        def reading(gpu: LogEntry, source: str) -> Reading[Any]:
            where = f"{source}: {what}"
            section = first(gpu, *paths)
            if section is None:
                return missing(where, NOT_THERE)
            if section.children:
                seen = look(section)
            else:
                seen = why_missing(section.value) or Missing(f"unexpected value {section.value[:40]!r}")
            return Reading(where, missing=seen) if isinstance(seen, Missing) else read(where, seen)

        return reading

    return group


def _value(entry: LogEntry | None, where: str, convert: Callable[[str], Any]) -> Reading[Any]:
    if entry is None:
        return missing(where, NOT_THERE)
    why = why_missing(entry.value)
    return Reading(where, missing=why) if why is not None else read(where, convert(entry.value))


def _all_missing(entries: list[LogEntry]) -> Missing | None:
    """The reason, when none of the values is one."""
    reasons = [why_missing(entry.value) for entry in entries]
    return reasons[0] if reasons and all(reason is not None for reason in reasons) else None


def _needed(section: LogEntry, *paths: str) -> LogEntry:
    entry = first(section, *paths)
    if entry is None:
        raise ValueError
    return entry


def ecc(counter: str) -> Group:
    """ECC counts: one total per kind of error before Turing, SRAM and DRAM apart since."""

    @of_section(f"ECC errors, {counter}", f"ecc errors/{counter}")
    def counts(section: LogEntry) -> EccCounts | Missing:
        corrected, uncorrected = _ecc_entries(section)
        return _all_missing(corrected + uncorrected) or EccCounts(_sum(corrected), _sum(uncorrected))

    return counts


def _ecc_entries(section: LogEntry) -> tuple[list[LogEntry], list[LogEntry]]:
    if first(section, "single bit") is not None:
        single = _needed(section, "single bit/total")
        return [single], [_needed(section, "double bit/total")]
    corrected = [
        _needed(section, "sram correctable"),
        _needed(section, "dram correctable"),
    ]
    uncorrected = [_needed(section, "dram uncorrectable")]
    whole = first(section, "sram uncorrectable")
    if whole is not None:
        return corrected, [*uncorrected, whole]
    return corrected, [
        *uncorrected,
        _needed(section, "sram uncorrectable parity"),
        _needed(section, "sram uncorrectable sec-ded", "sram uncorrectable secded"),
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


@of_section("remapped rows", "remapped rows")
def remapped_rows(section: LogEntry) -> RemappedRows | Missing:
    entries = [
        _needed(section, "correctable error", "remapped row corr"),
        _needed(section, "uncorrectable error", "remapped row unc"),
        _needed(section, "pending", "remapped row pending"),
        _needed(section, "remapping failure occurred", "remapped row failure"),
    ]
    if why := _all_missing(entries):
        return why
    correctable, uncorrectable, pending, failure = (entry.value for entry in entries)
    return RemappedRows(count(correctable), count(uncorrectable), yes(pending), yes(failure))


@of_section("retired pages", "retired pages")
def retired_pages(section: LogEntry) -> RetiredPages | Missing:
    entries = [
        _needed(section, "single bit ecc", "multiple single bit retirement/retired count"),
        _needed(section, "double bit ecc", "double bit retirement/retired count"),
        _needed(section, "pending page blacklist", "pending", "pending blacklist", "pending retirement"),
    ]
    if why := _all_missing(entries):
        return why
    single, double, pending = (entry.value for entry in entries)
    return RetiredPages(count(single), count(double), yes(pending))


@of_section("clocks event reasons", "clocks event reasons", "clocks throttle reasons")
def clock_event_reasons(section: LogEntry) -> int | Missing:
    """The reasons as NVML's bit mask; "throttle" reasons until driver 535."""
    entries = {
        _reason_name(entry): entry
        for child in section.children
        for entry in (child, *child.children)  # hardware slowdowns are listed below their sum
    }
    if not {"sw power cap", "hw slowdown", "sw thermal slowdown"} <= entries.keys():
        raise ValueError
    if why := _all_missing(list(entries.values())):
        return why
    mask = 0
    for name, bit in CLOCK_EVENT_REASONS.items():
        entry = entries.get(name)
        if entry is not None and why_missing(entry.value) is None and active(entry.value):
            mask |= bit
    return mask


def _reason_name(entry: LogEntry) -> str:
    name = entry.name.removeprefix("clocks event reason ").removeprefix("clocks throttle reason ")
    return {"gpu idle": "idle", "display clocks setting": "display clock setting"}.get(name, name)


@of_section("fabric", "fabric")
def fabric(section: LogEntry) -> Fabric | Missing:
    state, status = _needed(section, "state"), _needed(section, "status")
    why = why_missing(state.value)
    if why is not None and state.value.casefold() not in FABRIC_STATES:
        return why
    number = word(state.value, FABRIC_STATES)
    # The status means something only once the registration has ended.
    ended = word(status.value, NVML_TEXTS) if number == FABRIC_STATES["completed"] else 0
    health = first(section, "health")
    return Fabric(number, ended, *_health(health)) if health is not None else Fabric(number, ended)


def _health(section: LogEntry) -> tuple[int | None, bool | None]:
    """The mask as NVML gives it, and whether the summary is bad (580 and later); None for what is not told."""
    mask, is_told = 0, False
    for names, shift, meanings in FABRIC_HEALTH:
        entry = first(section, *names)
        code = meanings.get(entry.value.casefold(), 0) if entry is not None else 0
        is_told = is_told or code > 0
        mask |= code << shift
    summary = first(section, "summary")
    said = summary.value.casefold() if summary is not None else ""
    if said == "limited capacity":
        mask, is_told = mask & ~3 | 1, True
    return mask if is_told else None, {"unhealthy": True, "healthy": False}.get(said)


def recovery_action(gpu: LogEntry, source: str) -> Reading[int]:
    """What the driver wants done; before it had a name for that (565) and beside it, whether it wanted a reset."""
    where = f"{source}: GPU recovery action"
    entry = first(gpu, "gpu recovery action")
    named = None if entry is None else _value(entry, where, lambda text: word(text, RECOVERY_ACTIONS))
    if named is not None and named.value_or(0) != 0:
        return named
    wanted = {"gpu reset status/reset required": 1, "gpu reset status/drain and reset recommended": 4}
    for path, action in wanted.items():
        entry = first(gpu, path)
        if entry is not None and entry.value.casefold() == "yes":
            return read(f"{source}: {path}", action)
    return missing(where, NOT_THERE) if named is None else named


def slowdown(gpu: LogEntry, source: str) -> Reading[int]:
    return _threshold(gpu, source, "slowdown", "slow")


def shutdown(gpu: LogEntry, source: str) -> Reading[int]:
    return _threshold(gpu, source, "shutdown", "max")


def _threshold(gpu: LogEntry, source: str, word_in_text: str, word_in_xml: str) -> Reading[int]:
    """A threshold in degrees; since Ada nvidia-smi gives only how far the GPU is from it (T.Limit, a margin)."""
    where = f"{source}: GPU {word_in_text} temp"
    plain = first(gpu, f"temperature/gpu {word_in_text} temp", f"temperature/gpu temp {word_in_xml} threshold")
    if plain is not None:
        return _value(plain, where, celsius)
    margin = first(
        gpu, "temperature/gpu t.limit temp", "temperature/gpu current t.limit temp", "temperature/gpu temp tlimit"
    )
    limit = first(
        gpu, f"temperature/gpu {word_in_text} t.limit temp", f"temperature/gpu temp {word_in_xml} tlimit threshold"
    )
    temperature = first(gpu, "temperature/gpu current temp", "temperature/gpu temp")
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
    plain = first(gpu, "temperature/memory max operating temp", "temperature/gpu temp max mem threshold")
    margin = first(
        gpu, "temperature/memory max operating t.limit temp", "temperature/gpu temp max mem tlimit threshold"
    )
    if plain is None and margin is not None and why_missing(margin.value) is None:
        return missing(where, "this GPU gives it as a margin (T.Limit), from which no temperature follows")
    return _value(plain or margin, where, celsius)


def sram_threshold_exceeded(gpu: LogEntry, source: str) -> Reading[bool]:
    where = f"{source}: SRAM threshold exceeded"
    entry = first(gpu, "ecc errors/aggregate/sram threshold exceeded")
    if entry is not None:
        return _value(entry, where, yes)
    # The threshold came together with counting parity and SEC-DED errors apart; one count of both means there is none.
    one_count = first(gpu, "ecc errors/aggregate/sram uncorrectable")
    if one_count is not None or first(gpu, "ecc errors/aggregate/single bit"):
        return missing(where, "not reported by this GPU and driver", "absent")
    return missing(where, NOT_THERE)


def mig_devices(gpu: LogEntry, source: str) -> Reading[tuple[MigDevice, ...]]:
    where = f"{source}: MIG devices"
    mode = _value(first(gpu, "mig mode/current", "mig mode/current mig"), where, enabled)
    if not mode.is_read or not mode.value:
        return read(where, ()) if mode.is_read else Reading(where, missing=mode.missing)
    sections = [*gpu.named("mig device")]
    container = first(gpu, "mig devices")
    if container is not None:
        sections += container.named("mig device")
    elif gpu.children[-1].name in ("mig device", "mig mode"):
        raise ValueError  # more stands below a whole list: the log was cut
    return read(where, tuple(_mig_device(place, section, where) for place, section in enumerate(sections)))


def _mig_device(place: int, section: LogEntry, source: str) -> MigDevice:
    def value(convert: Callable[[str], int], *paths: str) -> Reading[int]:
        return _value(first(section, *paths), source, convert)

    not_told = missing(source, "nvidia-smi -q does not name it; nvidia-smi -L does")
    return MigDevice(
        value(count, "index").value_or(place),
        uuid=not_told,
        name=not_told,
        gpu_instance=value(count, "gpu instance id"),
        compute_instance=value(count, "compute instance id"),
        memory_total_bytes=value(mebibytes, "shared fb memory usage/total", "fb memory usage/total"),
        memory_used_bytes=value(mebibytes, "shared fb memory usage/used", "fb memory usage/used"),
    )


def processes(gpu: LogEntry, source: str) -> Reading[tuple[GpuProcess, ...]]:
    where = f"{source}: processes"

    @of_section("processes", "processes")
    def listed(section: LogEntry) -> tuple[GpuProcess, ...]:
        entries = [*section.named("process id"), *section.named("process info")]
        return tuple(_process(entry, where) for entry in entries)

    section = first(gpu, "processes")
    # The text form says None; the XML form has an empty element.
    is_none = section is not None and not section.children and section.value.casefold() in ("none", "")
    return read(where, ()) if is_none else listed(gpu, source)


def _process(process: LogEntry, source: str) -> GpuProcess:
    pid = first(process, "pid") or process
    kind = _needed(process, "type").value.split("+")
    name = _needed(process, "name", "process name").value
    memory = _needed(process, "used gpu memory", "used memory").value
    if not kind or not set(kind) <= {"C", "G", "M"}:
        raise ValueError
    why = why_missing(name)
    return GpuProcess(
        count(pid.value),
        "compute" if "C" in kind or "M" in kind else "graphics",
        None if why_missing(memory) is not None else mebibytes(memory),
        user=missing(source, NOT_THERE),
        command=Reading(source, missing=why) if why is not None else command_of(name, source),
    )


def command_of(name: str, source: str) -> Reading[str]:
    """A command line may be of any length: one that is odd must not cost the list."""
    if not name.isprintable():
        return missing(source, "the name is not printable")
    return read(source, name if len(name) <= LONGEST_COMMAND else f"{name[: LONGEST_COMMAND - 3]}...")


GROUPS: dict[str, Group] = {
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
