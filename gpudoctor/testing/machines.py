"""Healthy machines to start a test from, and `but` to change one thing of them.

machine = but(h100_node(), "host.shared_memory", Space(64 * MIB, 64 * MIB))
machine = but(h100_node(), "training.torch.nccl_version", (2, 19, 3))
machine = but_gpu(h100_node(), 3, temperature_celsius=99)
"""

from functools import cache
from typing import Any, TypeVar

import msgspec

from gpudoctor.snapshot import (
    Accelerators,
    Cuda,
    CudaAnswer,
    CudaDevice,
    DeviceNode,
    EccCounts,
    Fabric,
    Gpu,
    Network,
    Nvidia,
    NvLink,
    PciDevice,
    PeerAccess,
    Reading,
    RemappedRows,
    Snapshot,
    TopologyLevel,
    TorchDevice,
    absent,
    missing,
    read,
)
from gpudoctor.testing.hosts import host, training
from gpudoctor.testing.networks import (
    ethernet,
    interface,
    root_path,
    server_network,
    virtual_network,
    workstation_network,
)

MIB = 1024**2
GIB = 1024**3

S = TypeVar("S", bound=msgspec.Struct)


def but(thing: S, path: str, value: Any) -> S:
    """`thing` with the field at dotted `path` replaced, also within a reading; a mere value keeps a fact's source."""
    name, _, rest = path.partition(".")
    old = getattr(thing, name)
    if isinstance(old, Reading) and not isinstance(value, Reading):
        value = read(old.source, but(old.value, rest, value) if rest else value)
    elif rest:
        value = but(old, rest, value)
    return msgspec.structs.replace(thing, **{name: value})


def but_gpu(machine: Snapshot, index: int, **fields: Any) -> Snapshot:
    """The machine with fields of one GPU replaced, by readings or values."""
    gpus = list(machine.nvidia.gpus.value)
    sourced = {name: _from_call(index, name, fact) for name, fact in fields.items()}
    gpus[index] = msgspec.structs.replace(gpus[index], **sourced)
    return but(machine, "nvidia.gpus", read("nvml", tuple(gpus)))


def unread(source: str = "test", reason: str = "permission denied") -> Reading[Any]:
    """A fact that could not be read."""
    return missing(source, reason, "denied")


def nvml(value: Any) -> Reading[Any]:
    return read("nvml", value)


UNSUPPORTED: Reading[Any] = absent("nvml", "not supported by this GPU")

CALLS = {
    "name": "Name",
    "uuid": "UUID",
    "serial": "Serial",
    "pci_bus_id": "PciInfo",
    "minor_number": "MinorNumber",
    "compute_capability": "CudaComputeCapability",
    "vbios_version": "VbiosVersion",
    "gsp_firmware_version": "GspFirmwareVersion",
    "cpu_affinity": "CpuAffinity",
    "memory_total_bytes": "MemoryInfo",
    "memory_used_bytes": "MemoryInfo",
    "memory_free_bytes": "MemoryInfo",
    "memory_reserved_bytes": "MemoryInfo",
    "utilization_gpu_percent": "UtilizationRates",
    "utilization_memory_percent": "UtilizationRates",
    "processes": "ComputeRunningProcesses",
    "temperature_celsius": "Temperature",
    "temperature_slowdown_celsius": "TemperatureThreshold",
    "temperature_shutdown_celsius": "TemperatureThreshold",
    "memory_temperature_celsius": "FieldValues",
    "memory_temperature_max_celsius": "TemperatureThreshold",
    "power_draw_watts": "PowerUsage",
    "power_limit_watts": "EnforcedPowerLimit",
    "power_limit_default_watts": "PowerManagementDefaultLimit",
    "clock_sm_mhz": "ClockInfo",
    "clock_sm_max_mhz": "MaxClockInfo",
    "clock_memory_mhz": "ClockInfo",
    "clock_memory_max_mhz": "MaxClockInfo",
    "clock_event_reasons": "CurrentClocksEventReasons",
    "performance_state": "PerformanceState",
    "ecc_mode": "EccMode",
    "ecc_mode_pending": "EccMode",
    "ecc_volatile": "TotalEccErrors",
    "ecc_aggregate": "TotalEccErrors",
    "sram_threshold_exceeded": "SramEccErrorStatus",
    "remapped_rows": "RemappedRows",
    "retired_pages": "RetiredPages",
    "recovery_action": "FieldValues",
    "pcie_generation": "CurrPcieLinkGeneration",
    "pcie_generation_max": "MaxPcieLinkGeneration",
    "pcie_width": "CurrPcieLinkWidth",
    "pcie_width_max": "MaxPcieLinkWidth",
    "pcie_replays": "PcieReplayCounter",
    "persistence_mode": "PersistenceMode",
    "compute_mode": "ComputeMode",
    "display_active": "DisplayActive",
    "mig_mode": "MigMode",
    "mig_mode_pending": "MigMode",
    "mig_devices": "MigDeviceHandleByIndex",
    "nvlinks": "NvLinkState",
    "fabric": "GpuFabricInfo",
    "vgpu_licence": "GridLicensableFeatures_v4",
}
"""The NVML call that each fact of a GPU comes from, without its "nvmlDeviceGet"."""


def gpu(index: int, **fields: Any) -> Gpu:
    """A healthy, idle H100 SXM behind NVSwitch."""
    healthy: dict[str, Any] = {
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": f"GPU-{index:08x}-1111-2222-3333-444444444444",
        "serial": f"16540{index:07d}",
        "pci_bus_id": f"00000000:{0x1B + 0x10 * index:02x}:00.0",
        "minor_number": index,
        "compute_capability": (9, 0),
        "vbios_version": "96.00.89.00.01",
        "gsp_firmware_version": "565.57.01",
        "numa_node": index // 4,
        "cpu_affinity": nvml(tuple(range(56 * (index // 4), 56 * (index // 4) + 56))),
        "memory_total_bytes": 81559 * MIB,
        "memory_used_bytes": 4 * MIB,
        "memory_free_bytes": 81007 * MIB,
        "memory_reserved_bytes": 548 * MIB,
        "utilization_gpu_percent": 0,
        "utilization_memory_percent": 0,
        "processes": (),
        "temperature_celsius": 31,
        "temperature_slowdown_celsius": 87,
        "temperature_shutdown_celsius": 92,
        "memory_temperature_celsius": 40,
        "memory_temperature_max_celsius": 95,
        "power_draw_watts": 71.5,
        "power_limit_watts": 700.0,
        "power_limit_default_watts": 700.0,
        "clock_sm_mhz": 345,
        "clock_sm_max_mhz": 1980,
        "clock_memory_mhz": 2619,
        "clock_memory_max_mhz": 2619,
        "clock_event_reasons": 0x1,
        "performance_state": 0,
        "ecc_mode": True,
        "ecc_mode_pending": True,
        "ecc_volatile": EccCounts(0, 0),
        "ecc_aggregate": EccCounts(0, 0),
        "sram_threshold_exceeded": False,
        "remapped_rows": RemappedRows(0, 0, False, False),
        "retired_pages": UNSUPPORTED,
        "recovery_action": UNSUPPORTED,
        "inforom_valid": True,
        "vgpu_licence": UNSUPPORTED,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_replays": 0,
        "persistence_mode": True,
        "compute_mode": "default",
        "display_active": False,
        "mig_mode": False,
        "mig_mode_pending": False,
        "mig_devices": (),
        "nvlinks": tuple(
            NvLink(link, True, "switch", replay_errors=0, recovery_errors=0, crc_errors=0) for link in range(18)
        ),
        "fabric": Fabric(3, 0, 0),
    }
    facts = healthy | fields
    return Gpu(index, **{name: _from_call(index, name, fact) for name, fact in facts.items()})


def _from_call(index: int, name: str, fact: Any) -> Reading[Any]:
    """The fact with the source that the reader gives it."""
    reading: Reading[Any] = fact if isinstance(fact, Reading) else nvml(fact)
    if reading.source != "nvml" or name not in CALLS:
        return reading
    return msgspec.structs.replace(reading, source=f"nvmlDeviceGet{CALLS[name]} GPU {index}")


def t4(index: int, **fields: Any) -> Gpu:
    """A healthy, idle Tesla T4: PCIe, no NVLink, no MIG, page retirement instead of row remapping."""
    card: dict[str, Any] = {
        "name": "Tesla T4",
        "compute_capability": (7, 5),
        "memory_total_bytes": 15360 * MIB,
        "memory_free_bytes": 14928 * MIB,
        "power_draw_watts": 10.2,
        "power_limit_watts": 70.0,
        "power_limit_default_watts": 70.0,
        "clock_sm_max_mhz": 1590,
        "memory_temperature_celsius": UNSUPPORTED,
        "memory_temperature_max_celsius": UNSUPPORTED,
        "remapped_rows": UNSUPPORTED,
        "sram_threshold_exceeded": UNSUPPORTED,
        "pcie_generation": 1,
        "pcie_generation_max": 3,
        "mig_mode": UNSUPPORTED,
        "mig_mode_pending": UNSUPPORTED,
        "mig_devices": UNSUPPORTED,
        "nvlinks": UNSUPPORTED,
        "fabric": UNSUPPORTED,
    }
    return gpu(index, **(card | fields))


def rtx_4090(index: int, **fields: Any) -> Gpu:
    """A healthy, idle GeForce RTX 4090: no ECC by default, no NVLink, no MIG; link at generation 1 while idle."""
    card: dict[str, Any] = {
        "name": "NVIDIA GeForce RTX 4090",
        "serial": UNSUPPORTED,
        "compute_capability": (8, 9),
        "memory_total_bytes": 24564 * MIB,
        "memory_free_bytes": 24210 * MIB,
        "power_draw_watts": 14.0,
        "power_limit_watts": 450.0,
        "power_limit_default_watts": 450.0,
        "clock_sm_max_mhz": 3105,
        "memory_temperature_celsius": UNSUPPORTED,
        "memory_temperature_max_celsius": UNSUPPORTED,
        "ecc_mode": False,
        "ecc_mode_pending": False,
        "ecc_volatile": UNSUPPORTED,
        "ecc_aggregate": UNSUPPORTED,
        "sram_threshold_exceeded": UNSUPPORTED,
        "pcie_generation": 1,
        "pcie_generation_max": 4,
        "persistence_mode": False,
        "mig_mode": UNSUPPORTED,
        "mig_mode_pending": UNSUPPORTED,
        "mig_devices": UNSUPPORTED,
        "nvlinks": UNSUPPORTED,
        "fabric": UNSUPPORTED,
    }
    return gpu(index, **(card | fields))


def node(
    gpus: tuple[Gpu, ...],
    *,
    driver: str = "580.95.05",
    cuda: tuple[int, int] = (13, 0),
    network: Network | None = None,
) -> Snapshot:
    """A healthy bare-metal machine with these GPUs and the default torch wheel; nothing about it deserves a word.

    Its network is one 100G port, and RDMA beside each GPU where they have NVSwitch.
    """
    count = len(gpus)
    has_switch = any(reading.is_read for reading in (card.fabric for card in gpus))
    enumerated = tuple(
        CudaDevice(
            card.index,
            card.uuid.value_or(""),
            card.pci_bus_id.value_or(""),
            card.name.value_or(""),
            card.memory_total_bytes.value_or(0),
            gpu_direct_rdma="GeForce" not in card.name.value_or(""),
            dma_buf="GeForce" not in card.name.value_or(""),
        )
        for card in gpus
    )
    answer = read("libcuda", CudaAnswer(0, "CUDA_SUCCESS", cuda, "/usr/lib/x86_64-linux-gnu/libcuda.so.1", enumerated))
    devices = tuple(
        TorchDevice(
            device.ordinal,
            "cuda",
            device.name,
            device.uuid.removeprefix("GPU-"),
            card.compute_capability.value_or((0, 0)),
            device.memory_total_bytes,
        )
        for device, card in zip(enumerated, gpus, strict=True)
    )
    pci = [
        PciDevice(
            card.pci_bus_id.value_or("0000:00:00.0")[4:],
            "0x10de",
            "0x2330",
            "0x030200",
            "nvidia",
            card.numa_node.value_or(-1),
            16,
            16,
        )
        for card in gpus
    ]
    if has_switch:
        pci += [
            PciDevice(f"0000:{7 + n:02x}:00.0", "0x10de", "0x22a3", "0x068000", "nvidia-nvswitch") for n in range(4)
        ]
    paths = ["/dev/nvidiactl", "/dev/nvidia-uvm", *(f"/dev/nvidia{card.minor_number.value_or(0)}" for card in gpus)]
    return Snapshot(
        gpudoctor="0.1.0",
        taken_at=read("clock", "2026-11-20T12:00:00+00:00"),
        environment=read("environment of gpudoctor", {}),
        nvidia=Nvidia(
            init_code=read("nvmlInit", 0),
            driver_version=nvml(driver),
            nvml_version=nvml(f"{cuda[0]}.{driver}"),
            cuda_version=nvml(cuda),
            kernel_module_version=read("/proc/driver/nvidia/version", driver),
            gpus=nvml(gpus),
            peers=nvml(
                tuple(
                    PeerAccess(a.index, b.index, "ok", "ok" if has_switch else "not-supported")
                    for a in gpus
                    for b in gpus
                    if a is not b
                )
            )
            if count > 1
            else absent("nvml", "fewer than two GPUs"),
            topology=topology(gpus, "node" if has_switch else "hostbridge"),
        ),
        cuda=Cuda(visible=answer, all=answer),
        accelerators=Accelerators(
            pci=read("/sys/bus/pci/devices", tuple(pci)),
            device_nodes=read("/dev", tuple(DeviceNode(path, True, True, 0o666, "root", "root") for path in paths)),
            kernel_modules=read("/proc/modules", ("nvidia", "nvidia_uvm", "nvidia_modeset")),
        ),
        host=host(has_switch=has_switch, driver=driver),
        network=network or (server_network(count) if has_switch else _plain_network(gpus)),
        training=training(devices, cuda="13.0"),
    )


def _plain_network(gpus: tuple[Gpu, ...]) -> Network:
    """One 100G port, and a root port for each GPU."""
    nic = interface("eth0", "192.0.2.11/24", pci_bus_id="0000:05:00.0", numa_node=0)
    cards = [root_path(card.pci_bus_id.value_or("0000:00:00.0")[4:]) for card in gpus]
    return ethernet(nic, root_path("0000:05:00.0"), *cards)


def topology(gpus: tuple[Gpu, ...], nearest: str) -> Reading[tuple[TopologyLevel, ...]]:
    """What NVML says of GPUs that are `nearest` to those of their socket."""
    source = "nvmlDeviceGetTopologyCommonAncestor"
    if len(gpus) < 2:
        return absent(source, "fewer than two GPUs")
    pairs = [(a, b) for a in gpus for b in gpus if a.index < b.index]
    return read(
        source,
        tuple(
            TopologyLevel(a.index, b.index, nearest if a.numa_node.value_or(0) == b.numa_node.value_or(0) else "system")
            for a, b in pairs
        ),
    )


@cache
def h100_node(count: int = 8) -> Snapshot:
    """A healthy HGX H100 machine."""
    return node(tuple(gpu(index) for index in range(count)))


@cache
def t4_node(count: int = 2) -> Snapshot:
    return node(tuple(t4(index) for index in range(count)), network=virtual_network(count))


@cache
def rtx_4090_node(count: int = 4) -> Snapshot:
    return node(tuple(rtx_4090(index) for index in range(count)), network=workstation_network(count))
