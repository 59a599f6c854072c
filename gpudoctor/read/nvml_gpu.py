"""The facts about one GPU: which NVML call gives which fields of `snapshot.Gpu`.

Each `Fact` is read by itself. NVML constants are written as numbers where nvidia-ml-py's own are wrong in some
release (NVML_P2P_CAPS_INDEX_READ is a tuple) or missing in older ones; nvml.h never changes them.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from gpudoctor.knowledge import pci_address
from gpudoctor.read import nvml_links, nvml_processes
from gpudoctor.read.nvml_calls import (
    CORRUPTED_INFOROM,
    FUNCTION_NOT_FOUND,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    TOO_OLD,
    CallFailed,
    Calls,
    guarded,
    text,
)
from gpudoctor.read.system import System
from gpudoctor.snapshot import (
    EccCounts,
    Fabric,
    MigDevice,
    Missing,
    Reading,
    RemappedRows,
    RetiredPages,
    missing,
    read,
)

FIELD_MEMORY_TEMPERATURE = 82  # NVML_FI_DEV_MEMORY_TEMP
FIELD_RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, driver >= 570
THRESHOLD_SHUTDOWN, THRESHOLD_SLOWDOWN, THRESHOLD_MEMORY_MAXIMUM = 0, 1, 2  # nvmlTemperatureThresholds_t
CLOCK_SM, CLOCK_MEMORY = 1, 2  # nvmlClockType_t
CORRECTED, UNCORRECTED = 0, 1  # nvmlMemoryErrorType_t
VOLATILE, AGGREGATE = 0, 1  # nvmlEccCounterType_t
CAUSE_SINGLE_BIT, CAUSE_DOUBLE_BIT = 0, 1  # nvmlPageRetirementCause_t
MEMORY_V2 = 0x02000028  # version of nvmlMemory_v2_t
PERFORMANCE_STATE_UNKNOWN = 32
MAXIMUM_MIG_DEVICES = 256
"""More than any GPU can be cut into (7 so far): an end for a driver that answers with a garbage count."""
COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
VALUE_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of nvmlValue_t by nvmlValueType_t."""


class FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_t of nvml.h. nvidia-ml-py 12.535 has it with a `cluster` of 80 bytes, and so reads state 0."""

    _fields_ = (
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_int),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    )


class FabricInfoV2(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t."""

    _fields_ = (("version", ctypes.c_uint), *FabricInfo._fields_, ("health", ctypes.c_uint))


class FabricInfoV3(ctypes.Structure):
    """nvmlGpuFabricInfo_v3_t."""

    _fields_ = (*FabricInfoV2._fields_, ("summary", ctypes.c_ubyte))


class NvmlDevice:
    """A GPU whose handle is open."""

    def __init__(self, calls: Calls, handle: Any, system: System, doctor_pid: int) -> None:
        self.calls = calls
        self.handle = handle
        self.system = system
        self.doctor_pid = doctor_pid
        self.pci_bus_id = ""
        """Known once it was read."""

    def ask(self, name: str, *arguments: object) -> Any:
        """An NVML function of this GPU's handle. Raises `CallFailed`."""
        return self.calls.ask(name, self.handle, *arguments)

    def ask_first_offered(self, *requests: tuple[object, ...]) -> Any:
        """`Calls.ask_first_offered` with this GPU's handle as first argument of each request."""
        return self.calls.ask_first_offered(*((name, self.handle, *rest) for name, *rest in requests))


class Fact(NamedTuple):
    """One or several fields that are read together. `read` gives one value, or a tuple with one for each field."""

    call: str
    fields: tuple[str, ...]
    read: Callable[[NvmlDevice], Any]


def readings(device: NvmlDevice, fact: Fact) -> Mapping[str, Reading[Any]]:
    """The fact's fields. Never raises: what fails is a reason."""
    answer = guarded(device.calls.source(fact.call), lambda: fact.read(device))
    if not answer.is_read:
        return dict.fromkeys(fact.fields, answer)
    values = answer.value if len(fact.fields) > 1 else (answer.value,)
    return {
        field: value if isinstance(value, Reading) else read(answer.source, value)
        for field, value in zip(fact.fields, values, strict=True)
    }


def asked(call: str, field: str, *arguments: object, convert: Callable[[Any], Any] = int) -> Fact:
    """A fact that is one call's result, converted."""
    return Fact(call, (field,), lambda device: convert(device.ask(call, *arguments)))


def _pci_bus_id(device: NvmlDevice) -> str:
    raw: bytes = device.ask("nvmlDeviceGetPciInfo").busId
    device.pci_bus_id = pci_address.normalised(text(raw))
    return device.pci_bus_id


def _gsp_firmware_version(device: NvmlDevice) -> str:
    buffer = ctypes.create_string_buffer(64)  # NVML_GSP_FIRMWARE_VERSION_BUF_SIZE
    device.ask("nvmlDeviceGetGspFirmwareVersion", buffer)  # older nvidia-ml-py wants the buffer from its caller
    return text(buffer.value)


def _numa_node(device: NvmlDevice) -> int | Reading[int]:
    # Not nvmlDeviceGetNumaNodeId: that is the node of the GPU's own memory, where GPU memory is one (GH200).
    if not device.pci_bus_id:
        return missing("/sys/bus/pci/devices/*/numa_node", "the GPU's PCI address could not be read")
    path = f"/sys/bus/pci/devices/{pci_address.in_sysfs(device.pci_bus_id)}/numa_node"
    try:
        node = int(device.system.text(path))
    except OSError as error:
        return missing(path, error.strerror or str(error))
    if node < 0:  # the kernel's NUMA_NO_NODE
        return Reading(path, missing=Missing("the firmware names no NUMA node for this GPU", "absent"))
    return read(path, node)


def _cpu_affinity(device: NvmlDevice) -> tuple[int, ...]:
    words = device.ask("nvmlDeviceGetCpuAffinity", _words_for_all_cpus(device.system))
    cpus = tuple(64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1)
    if not cpus:
        raise ValueError("named no CPU")
    return cpus


def _words_for_all_cpus(system: System) -> int:
    """How many 64-bit words a mask of this machine's CPUs takes; 4096 CPUs when the kernel does not say."""
    try:
        last = system.text("/sys/devices/system/cpu/possible").replace(",", "-").rpartition("-")[2]
        return int(last) // 64 + 1
    except (OSError, ValueError):
        return 64


def _memory(device: NvmlDevice) -> tuple[Any, ...]:
    memory = device.ask_first_offered(("nvmlDeviceGetMemoryInfo", MEMORY_V2), ("nvmlDeviceGetMemoryInfo",))
    reserved = getattr(memory, "reserved", None)
    if reserved is None:
        reason = "this driver counts reserved memory as used (nvmlDeviceGetMemoryInfo_v2 comes with driver 510)"
        reserved = missing(device.calls.source("nvmlDeviceGetMemoryInfo"), reason)
    return memory.total, memory.used, memory.free, reserved


def _utilization(device: NvmlDevice) -> tuple[int, int]:
    rates = device.ask("nvmlDeviceGetUtilizationRates")
    return rates.gpu, rates.memory


def _temperature(device: NvmlDevice) -> int:
    # The first is to go with CUDA 14, the second came with driver 570.
    return int(device.ask_first_offered(("nvmlDeviceGetTemperature", 0), ("nvmlDeviceGetTemperatureV", 0)))


def _field_value(device: NvmlDevice, field: int) -> int:
    """A value of nvmlDeviceGetFieldValues, which has an error code of its own beside the call's."""
    (answer,) = device.ask("nvmlDeviceGetFieldValues", [field])
    if answer.nvmlReturn != SUCCESS:
        # A driver says InvalidArgument to the id of a field that was added after it.
        code = FUNCTION_NOT_FOUND if answer.nvmlReturn == INVALID_ARGUMENT else answer.nvmlReturn
        raise CallFailed(device.calls.source("nvmlDeviceGetFieldValues"), code)
    if not 0 <= answer.valueType < len(VALUE_TYPES):
        raise ValueError(f"answered with unknown value type {answer.valueType}")
    return int(getattr(answer.value, VALUE_TYPES[answer.valueType]))


def _watts(milliwatts: int) -> float:
    return milliwatts / 1000


def _clock_event_reasons(device: NvmlDevice) -> int:
    new, old = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    return int(device.ask_first_offered((new,), (old,)))


def _performance_state(state: int) -> int:
    if state == PERFORMANCE_STATE_UNKNOWN:
        raise ValueError("the driver does not know the performance state")
    return state


def _both(call: str) -> Callable[[NvmlDevice], tuple[bool, bool]]:
    """A mode and the one that is pending."""

    def modes(device: NvmlDevice) -> tuple[bool, bool]:
        current, pending = device.ask(call)
        return bool(current), bool(pending)

    return modes


def _ecc(counter: int) -> Callable[[NvmlDevice], EccCounts]:
    def counts(device: NvmlDevice) -> EccCounts:
        corrected = device.ask("nvmlDeviceGetTotalEccErrors", CORRECTED, counter)
        return EccCounts(corrected, device.ask("nvmlDeviceGetTotalEccErrors", UNCORRECTED, counter))

    return counts


def _sram_threshold_exceeded(device: NvmlDevice) -> bool:
    structure = getattr(device.calls.api, "c_nvmlEccSramErrorStatus_v1_t", ctypes.c_int)
    status: Any = structure()  # an nvidia-ml-py without the structure has no such function either
    # By reference: nvidia-ml-py passes on what it gets, and a structure would go by value.
    device.ask("nvmlDeviceGetSramEccErrorStatus", ctypes.byref(status))
    return bool(status.bThresholdExceeded)


def _remapped_rows(device: NvmlDevice) -> RemappedRows:
    correctable, uncorrectable, pending, failed = device.ask("nvmlDeviceGetRemappedRows")
    return RemappedRows(correctable, uncorrectable, bool(pending), bool(failed))


def _retired_pages(device: NvmlDevice) -> RetiredPages:
    single = len(device.ask("nvmlDeviceGetRetiredPages", CAUSE_SINGLE_BIT))
    double = len(device.ask("nvmlDeviceGetRetiredPages", CAUSE_DOUBLE_BIT))
    return RetiredPages(single, double, bool(device.ask("nvmlDeviceGetRetiredPagesPendingStatus")))


def _inforom_valid(device: NvmlDevice) -> bool:
    try:
        device.ask("nvmlDeviceValidateInforom")
    except CallFailed as error:
        if error.code != CORRUPTED_INFOROM:
            raise
        return False
    return True


def _vgpu_licence(device: NvmlDevice) -> str:
    features = device.ask_first_offered(
        ("nvmlDeviceGetGridLicensableFeatures_v4",), ("nvmlDeviceGetGridLicensableFeatures",)
    )
    if not features.isGridLicenseSupported or not features.licensableFeaturesCount:
        raise CallFailed(device.calls.source("nvmlDeviceGetGridLicensableFeatures_v4"), NOT_SUPPORTED)
    count = min(features.licensableFeaturesCount, len(features.gridLicensableFeatures))
    # Whether one is restricted, NVML does not tell a guest.
    return "Licensed" if any(each.featureState for each in features.gridLicensableFeatures[:count]) else "Unlicensed"


def _compute_mode(mode: int) -> str:
    if not 0 <= mode < len(COMPUTE_MODES):
        raise ValueError(f"answered with unknown compute mode {mode}")
    return COMPUTE_MODES[mode]


def _fabric(device: NvmlDevice) -> Fabric:
    for structure, number in ((FabricInfoV3, 3), (FabricInfoV2, 2)):
        info = structure(version=ctypes.sizeof(structure) | number << 24)  # NVML_STRUCT_VERSION
        try:
            device.ask("nvmlDeviceGetGpuFabricInfoV", ctypes.byref(info))
        except CallFailed as error:
            if error.code not in (*TOO_OLD, INVALID_ARGUMENT):
                raise
        else:
            return Fabric(info.state, info.status, info.health)
    first = FabricInfo()
    device.ask("nvmlDeviceGetGpuFabricInfo", ctypes.byref(first))
    return Fabric(first.state, first.status)


def _mig_devices(device: NvmlDevice) -> tuple[MigDevice, ...]:
    current, _ = device.ask("nvmlDeviceGetMigMode")
    return tuple(_each_mig_device(device)) if current else ()


def _each_mig_device(device: NvmlDevice) -> Iterator[MigDevice]:
    slots = device.ask("nvmlDeviceGetMaxMigDeviceCount")
    if slots > MAXIMUM_MIG_DEVICES:
        raise ValueError(f"answered with {slots} MIG devices")
    for index in range(slots):
        try:
            handle = device.ask("nvmlDeviceGetMigDeviceHandleByIndex", index)
        except CallFailed as error:
            if error.code == NOT_FOUND:  # an empty slot
                continue
            raise
        instance = NvmlDevice(device.calls, handle, device.system, device.doctor_pid)
        facts: dict[str, Reading[Any]] = {}
        for fact in MIG_FACTS:
            facts |= readings(instance, fact)
        yield MigDevice(index, **facts)


def _mig_memory(device: NvmlDevice) -> tuple[int, int]:
    memory = device.ask("nvmlDeviceGetMemoryInfo")
    return memory.total, memory.used


MIG_FACTS = (
    asked("nvmlDeviceGetUUID", "uuid", convert=text),
    asked("nvmlDeviceGetName", "name", convert=text),
    asked("nvmlDeviceGetGpuInstanceId", "gpu_instance"),
    asked("nvmlDeviceGetComputeInstanceId", "compute_instance"),
    Fact("nvmlDeviceGetMemoryInfo", ("memory_total_bytes", "memory_used_bytes"), _mig_memory),
)

FACTS = (
    asked("nvmlDeviceGetName", "name", convert=text),
    asked("nvmlDeviceGetUUID", "uuid", convert=text),
    Fact("nvmlDeviceGetPciInfo", ("pci_bus_id",), _pci_bus_id),
    asked("nvmlDeviceGetMinorNumber", "minor_number"),
    asked("nvmlDeviceGetCudaComputeCapability", "compute_capability", convert=tuple),
    asked("nvmlDeviceGetSerial", "serial", convert=text),
    asked("nvmlDeviceGetVbiosVersion", "vbios_version", convert=text),
    Fact("nvmlDeviceGetGspFirmwareVersion", ("gsp_firmware_version",), _gsp_firmware_version),
    Fact("numa_node in /sys", ("numa_node",), _numa_node),
    Fact("nvmlDeviceGetCpuAffinity", ("cpu_affinity",), _cpu_affinity),
    Fact(
        "nvmlDeviceGetMemoryInfo",
        ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes"),
        _memory,
    ),
    Fact(
        "nvmlDeviceGetUtilizationRates",
        ("utilization_gpu_percent", "utilization_memory_percent"),
        _utilization,
    ),
    Fact("nvmlDeviceGetTemperature", ("temperature_celsius",), _temperature),
    asked("nvmlDeviceGetTemperatureThreshold", "temperature_slowdown_celsius", THRESHOLD_SLOWDOWN),
    asked("nvmlDeviceGetTemperatureThreshold", "temperature_shutdown_celsius", THRESHOLD_SHUTDOWN),
    Fact(
        "nvmlDeviceGetFieldValues",
        ("memory_temperature_celsius",),
        lambda device: _field_value(device, FIELD_MEMORY_TEMPERATURE),
    ),
    asked("nvmlDeviceGetTemperatureThreshold", "memory_temperature_max_celsius", THRESHOLD_MEMORY_MAXIMUM),
    asked("nvmlDeviceGetPowerUsage", "power_draw_watts", convert=_watts),
    asked("nvmlDeviceGetEnforcedPowerLimit", "power_limit_watts", convert=_watts),
    asked("nvmlDeviceGetPowerManagementDefaultLimit", "power_limit_default_watts", convert=_watts),
    asked("nvmlDeviceGetClockInfo", "clock_sm_mhz", CLOCK_SM),
    asked("nvmlDeviceGetMaxClockInfo", "clock_sm_max_mhz", CLOCK_SM),
    asked("nvmlDeviceGetClockInfo", "clock_memory_mhz", CLOCK_MEMORY),
    asked("nvmlDeviceGetMaxClockInfo", "clock_memory_max_mhz", CLOCK_MEMORY),
    Fact("nvmlDeviceGetCurrentClocksEventReasons", ("clock_event_reasons",), _clock_event_reasons),
    asked("nvmlDeviceGetPerformanceState", "performance_state", convert=_performance_state),
    asked("nvmlDeviceGetFanSpeed", "fan_percent"),
    Fact("nvmlDeviceGetEccMode", ("ecc_mode", "ecc_mode_pending"), _both("nvmlDeviceGetEccMode")),
    Fact("nvmlDeviceGetTotalEccErrors", ("ecc_volatile",), _ecc(VOLATILE)),
    Fact("nvmlDeviceGetTotalEccErrors", ("ecc_aggregate",), _ecc(AGGREGATE)),
    Fact("nvmlDeviceGetSramEccErrorStatus", ("sram_threshold_exceeded",), _sram_threshold_exceeded),
    Fact("nvmlDeviceGetRemappedRows", ("remapped_rows",), _remapped_rows),
    Fact("nvmlDeviceGetRetiredPages", ("retired_pages",), _retired_pages),
    Fact(
        "nvmlDeviceGetFieldValues",
        ("recovery_action",),
        lambda device: _field_value(device, FIELD_RECOVERY_ACTION),
    ),
    asked("nvmlDeviceGetCurrPcieLinkGeneration", "pcie_generation"),
    asked("nvmlDeviceGetMaxPcieLinkGeneration", "pcie_generation_max"),
    asked("nvmlDeviceGetCurrPcieLinkWidth", "pcie_width"),
    asked("nvmlDeviceGetMaxPcieLinkWidth", "pcie_width_max"),
    asked("nvmlDeviceGetPcieReplayCounter", "pcie_replays"),
    asked("nvmlDeviceGetPersistenceMode", "persistence_mode", convert=bool),
    asked("nvmlDeviceGetComputeMode", "compute_mode", convert=_compute_mode),
    asked("nvmlDeviceGetDisplayActive", "display_active", convert=bool),
    Fact("nvmlDeviceGetMigMode", ("mig_mode", "mig_mode_pending"), _both("nvmlDeviceGetMigMode")),
    Fact("nvmlDeviceGetMigDeviceHandleByIndex", ("mig_devices",), _mig_devices),
    Fact("nvmlDeviceGetGpuFabricInfo", ("fabric",), _fabric),
    Fact("nvmlDeviceGetNvLinkState", ("nvlinks",), lambda device: nvml_links.nvlinks(device.ask)),
    Fact("nvmlDeviceGetGridLicensableFeatures_v4", ("vgpu_licence",), _vgpu_licence),
    # Last come those that may take long: the flash memory is read, and names of users are looked up.
    Fact("nvmlDeviceValidateInforom", ("inforom_valid",), _inforom_valid),
    Fact(
        "nvmlDeviceGetComputeRunningProcesses",
        ("processes",),
        lambda device: nvml_processes.processes(device.ask_first_offered, device.system, device.doctor_pid),
    ),
)
"""Every field of `snapshot.Gpu`, in the order in which it is read: identity first."""
