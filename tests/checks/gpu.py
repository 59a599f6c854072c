"""Cases of the checks in checks/gpudoctor_checks/gpu/."""

from typing import Any

import msgspec

from gpudoctor.snapshot import (
    EccCounts,
    Fabric,
    GpuProcess,
    KernelLog,
    NvLink,
    PeerAccess,
    Reading,
    RemappedRows,
    RetiredPages,
    Snapshot,
    StuckProcess,
    XidEvent,
    absent,
    missing,
    read,
)
from tests.build import (
    GIB,
    MIB,
    UNSUPPORTED,
    but,
    but_gpu,
    gpu,
    h100_node,
    node,
    nvml,
    rtx_4090,
    rtx_4090_node,
    t4,
    t4_node,
    unread,
)
from tests.cases import Case

LOST = missing("nvmlDeviceGetMemoryInfo GPU 3", "the GPU is lost (NVML error 15, GpuIsLost)", "lost")
DENIED: dict[str, Any] = {
    name: unread("nvmlDeviceGetHandleByIndex GPU 3", "no permission (NVML error 4, NoPermission)")
    for name in gpu(0).__struct_fields__
    if name != "index"
}
UNPOWERED: dict[str, Any] = {
    name: missing("nvmlDeviceGetHandleByIndex GPU 3", "NVML error 8, InsufficientPower") for name in DENIED
}


def one(**fields: Any) -> Snapshot:
    """The 8xH100 with GPU 3 changed."""
    return but_gpu(h100_node(), 3, **fields)


def in_container(machine: Snapshot, kind: str = "docker") -> Snapshot:
    return but(but(machine, "host.container", read("/proc/1", kind)), "host.fabric_manager", unread("/proc"))


def in_vm(machine: Snapshot) -> Snapshot:
    return but(machine, "host.virtualization", read("/sys/class/dmi/id", "kvm"))


def without_switches(machine: Snapshot) -> Snapshot:
    devices = machine.accelerators.pci.value
    kept = tuple(device for device in devices if not device.device_class.startswith("0x0680"))
    return but(machine, "accelerators.pci", read("/sys/bus/pci/devices", kept))


def links(active: int, count: int = 18, remote: str = "switch") -> Reading[Any]:
    return nvml(tuple(NvLink(link, link < active, remote, replay_errors=0, recovery_errors=0) for link in range(count)))


def every(machine: Snapshot, **fields: Any) -> Snapshot:
    """The machine with fields of all its GPUs changed."""
    return but(
        machine,
        "nvidia.gpus",
        nvml(tuple(msgspec.structs.replace(one, **fields) for one in machine.nvidia.gpus.value)),
    )


def peers(machine: Snapshot, status: str) -> Snapshot:
    """The machine with every pair's peer-to-peer status."""
    pairs = machine.nvidia.peers.value
    return but(machine, "nvidia.peers", nvml(tuple(PeerAccess(pair.from_gpu, pair.to_gpu, status) for pair in pairs)))


def process(
    pid: int, memory: int | None, kind: Any = "compute", *, own: bool = False, hidden: bool = False
) -> GpuProcess:
    nobody = unread("/proc", "host pid; not visible from this PID namespace")
    return GpuProcess(
        pid,
        kind,
        memory,
        user=nobody if hidden else read("/proc", "ann"),
        command=nobody if hidden else read("/proc", "python train.py"),
        is_own=own,
    )


def a100_pcie(index: int, active: int) -> Any:
    return gpu(index, name=nvml("NVIDIA A100 80GB PCIe"), nvlinks=links(active, 12, "gpu"), fabric=UNSUPPORTED)


def laptop(**fields: Any) -> Snapshot:
    """A notebook as it comes: the display takes some memory, the link is x8 of x16, firmware moves the power limit."""
    chip: dict[str, Any] = {
        "name": nvml("NVIDIA GeForce RTX 4070 Laptop GPU"),
        "memory_total_bytes": nvml(8188 * MIB),
        "memory_used_bytes": nvml(620 * MIB),
        "processes": nvml((process(2211, 410 * MIB, "graphics"), process(2987, 90 * MIB, "graphics"))),
        "utilization_gpu_percent": nvml(7),
        "display_active": nvml(True),
        "temperature_celsius": nvml(61),
        "temperature_slowdown_celsius": nvml(102),
        "power_limit_watts": nvml(55.0),
        "power_limit_default_watts": nvml(80.0),
        "pcie_width": nvml(8),
        "pcie_width_max": nvml(16),
        "clock_event_reasons": nvml(0x5),
    }
    return node((rtx_4090(0, **(chip | fields)),))


def rtx_3070_node() -> Snapshot:
    """Two desktop cards, one of them in the slot that the chipset serves with four lanes."""
    cards = (
        rtx_4090(0, name=nvml("NVIDIA GeForce RTX 3070"), display_active=nvml(True)),
        rtx_4090(1, name=nvml("NVIDIA GeForce RTX 3070"), pcie_width=nvml(4), pcie_width_max=nvml(4)),
    )
    return node(cards)


MIG_A100: dict[str, Any] = {
    "name": nvml("NVIDIA A100-SXM4-80GB"),
    "mig_mode": nvml(True),
    "mig_mode_pending": nvml(True),
    "utilization_gpu_percent": UNSUPPORTED,
    "utilization_memory_percent": UNSUPPORTED,
    "nvlinks": links(0, 12),
    "fabric": UNSUPPORTED,
}

CASES = [
    Case(
        "gpu-lost",
        fires=one(memory_used_bytes=LOST, temperature_celsius=LOST, power_draw_watts=LOST),
        unread=one(**DENIED),
        says=("GPU 3 (0000:4b:00.0) is lost", "GpuIsLost"),
    ),
    Case(
        "gpu-lost",
        fires=but(
            one(**dict.fromkeys(DENIED, LOST)),
            "host.kernel_log",
            read("/dev/kmsg", KernelLog((XidEvent(79, "0000:4b:00", "GPU has fallen off the bus."),))),
        ),
        says=("GPU 3 is lost", "Xid 79"),
    ),
    Case(
        "gpu-unreadable",
        fires=one(**UNPOWERED),
        unread=one(**dict.fromkeys(DENIED, LOST)),
        says=("GPU 3 cannot be opened", "InsufficientPower"),
    ),
    Case("gpu-unreadable", fires=one(**DENIED), severity="warning", commands=("ls -l /dev/nvidia*",)),
    Case("gpu-unreadable", fires=in_container(one(**DENIED)), severity="info"),
    Case(
        "gpu-recovery-action-needed",
        fires=one(recovery_action=nvml(1)),
        silent=every(h100_node(), recovery_action=nvml(0)),
        unread=one(recovery_action=LOST),
        says=("GPU 3 (0000:4b:00.0)", "a GPU reset"),
        commands=("sudo nvidia-smi --gpu-reset -i 3",),
    ),
    Case("gpu-recovery-action-needed", fires=one(recovery_action=nvml(2)), says=("reboot",)),
    Case("gpu-recovery-action-needed", fires=one(recovery_action=nvml(99)), says=("recovery action 99",)),
    Case(
        "ecc-uncorrected-errors",
        fires=one(ecc_volatile=nvml(EccCounts(12, 2))),
        silent=one(ecc_volatile=nvml(EccCounts(5000, 0)), ecc_aggregate=nvml(EccCounts(9000, 4))),
        unread=one(ecc_volatile=unread()),
        says=("GPU 3", "2 uncorrected"),
        commands=("sudo nvidia-smi --gpu-reset -i 3",),
    ),
    Case(
        "sram-errors-over-threshold",
        fires=one(sram_threshold_exceeded=nvml(True)),
        unread=one(sram_threshold_exceeded=unread()),
        severity="warning",
        says=("GPU 3",),
    ),
    Case(
        "row-remap-failed",
        fires=one(remapped_rows=nvml(RemappedRows(0, 9, False, True))),
        # An RTX 4090 answers with zeros although it remaps nothing.
        silent=but_gpu(rtx_4090_node(), 0, remapped_rows=nvml(RemappedRows(0, 0, False, False))),
        unread=one(remapped_rows=LOST),
        says=("GPU 3", "9 rows"),
    ),
    Case(
        "row-remap-pending",
        fires=one(remapped_rows=nvml(RemappedRows(1, 2, True, False))),
        silent=one(remapped_rows=nvml(RemappedRows(1, 2, False, False))),
        unread=one(remapped_rows=unread()),
        says=("1 correctable, 2 uncorrectable",),
        commands=("sudo nvidia-smi --gpu-reset -i 3",),
    ),
    Case(
        "retired-pages-pending",
        fires=but_gpu(t4_node(), 1, retired_pages=nvml(RetiredPages(1, 2, True))),
        silent=but_gpu(t4_node(), 1, retired_pages=nvml(RetiredPages(1, 2, False))),
        unread=but_gpu(t4_node(), 1, retired_pages=unread()),
        says=("GPU 1", "3 retired"),
        commands=("sudo nvidia-smi --gpu-reset -i 1",),
    ),
    Case(
        "retired-pages-many",
        fires=but_gpu(t4_node(), 1, retired_pages=nvml(RetiredPages(50, 13, False))),
        silent=but_gpu(t4_node(), 1, retired_pages=nvml(RetiredPages(47, 15, False))),
        unread=but_gpu(t4_node(), 1, retired_pages=unread()),
        says=("63 memory pages", "13 of them"),
    ),
    Case(
        "retired-pages-many",
        fires=but_gpu(t4_node(), 1, retired_pages=nvml(RetiredPages(0, 16, False))),
        severity="warning",
    ),
    Case(
        "inforom-corrupted",
        fires=one(inforom_valid=nvml(False)),
        unread=one(inforom_valid=unread()),
        severity="warning",
        says=("GPU 3",),
    ),
    Case(
        "clocks-held-down",
        fires=one(clock_event_reasons=nvml(0x48), temperature_celsius=nvml(89)),
        # Idle, power cap and application clocks together: azurehpc-health-checks took such sums for throttling.
        silent=every(h100_node(), clock_event_reasons=nvml(0x1 | 0x2 | 0x4 | 0x10 | 0x100)),
        unread=one(clock_event_reasons=unread()),
        severity="warning",
        says=("GPU 3", "hardware slowdown and hardware thermal slowdown", "89 °C", "345 MHz of 1980 MHz"),
    ),
    Case("clocks-held-down", fires=one(clock_event_reasons=nvml(0x84)), severity="warning", says=("power brake",)),
    Case("clocks-held-down", fires=laptop(clock_event_reasons=nvml(0x88)), severity="info"),
    Case("clocks-held-down", fires=laptop(clock_event_reasons=nvml(0x20)), silent=laptop(), severity="warning"),
    Case(
        "gpu-too-hot",
        fires=one(temperature_celsius=nvml(84)),
        silent=one(temperature_celsius=nvml(83)),
        unread=one(temperature_celsius=unread()),
        severity="warning",
        says=("GPU 3", "84 °C", "87 °C"),
    ),
    Case(
        "memory-too-hot",
        fires=one(memory_temperature_celsius=nvml(96)),
        silent=one(memory_temperature_celsius=nvml(94)),
        unread=one(memory_temperature_max_celsius=unread()),
        severity="warning",
        says=("96 °C", "95 °C"),
    ),
    Case(
        "pcie-link-narrow",
        fires=one(pcie_width=nvml(8)),
        silent=laptop(),
        unread=one(pcie_width=unread()),
        severity="warning",
        says=("GPU 3 (0000:4b:00.0)", "x8", "x16"),
        commands=("sudo lspci -vv -s 0000:4b:00.0 | grep LnkSta",),
    ),
    Case(
        "pcie-link-narrow",
        fires=but_gpu(rtx_4090_node(), 0, pcie_width=nvml(1)),
        silent=in_vm(one(pcie_width=nvml(8))),
        unread=but(one(pcie_width=nvml(8)), "host.virtualization", unread()),
        severity="warning",
    ),
    Case(
        "pcie-link-uneven",
        fires=but_gpu(rtx_4090_node(), 2, pcie_generation_max=nvml(3), pcie_width=nvml(8), pcie_width_max=nvml(8)),
        # Idle GPUs lower their generation each for itself.
        silent=but_gpu(rtx_4090_node(), 2, pcie_generation=nvml(4)),
        unread=but_gpu(rtx_4090_node(), 2, pcie_width_max=unread()),
        severity="warning",
        says=("GPU 2", "generation 3 x8", "GPUs 0-1,3", "generation 4 x16"),
    ),
    Case(
        "pcie-link-uneven",
        fires=but_gpu(one(pcie_generation_max=LOST), 5, pcie_generation_max=nvml(4)),
        severity="warning",
        says=("GPU 5",),
    ),
    Case("pcie-link-uneven", fires=rtx_3070_node(), severity="info", says=("GPU 1", "x4")),
    Case(
        "pcie-replays",
        fires=one(pcie_replays=nvml(100_000)),
        silent=one(pcie_replays=nvml(30_000)),
        unread=but(one(pcie_replays=nvml(100_000)), "host.uptime_seconds", unread()),
        severity="warning",
        says=("100000 PCIe replays", "23 a minute"),
    ),
    Case(
        "pcie-replays",
        fires=one(pcie_replays=nvml(1000_000)),
        silent=but(one(pcie_replays=nvml(60)), "host.uptime_seconds", read("/proc/uptime", 40.0)),
        unread=one(pcie_replays=unread()),
        severity="warning",
    ),
    Case(
        "nvlink-errors",
        fires=one(nvlinks=nvml((NvLink(0, True, "switch"), NvLink(5, True, "switch", "", 3, 1, 70)))),
        silent=one(nvlinks=nvml((NvLink(0, True, "switch", "", 0, 0, 12),))),
        unread=one(nvlinks=unread()),
        severity="warning",
        says=("GPU 3", "3 replays and 1 recoveries on NVLink 5", "70 CRC"),
    ),
    Case(
        "nvlink-inactive",
        fires=one(nvlinks=links(16)),
        silent=node(tuple(a100_pcie(index, 0) for index in range(4))),
        unread=one(nvlinks=unread()),
        says=("GPU 3 (0000:4b:00.0) has 16 active", "have 18", "down: 16-17"),
    ),
    Case(
        "nvlink-inactive",
        fires=every(h100_node(), nvlinks=links(0)),
        # One module of a baseboard, handed to a virtual machine without its switches.
        silent=in_vm(without_switches(but_gpu(h100_node(1), 0, nvlinks=links(0)))),
        unread=but(every(h100_node(), nvlinks=links(0)), "accelerators.pci", unread()),
        says=("GPUs 0-7", "no NVLink is active"),
    ),
    Case(
        "nvlink-inactive",
        fires=one(nvlinks=links(0)),
        # Two cards with a bridge and a third without.
        silent=node((a100_pcie(0, 12), a100_pcie(1, 12), a100_pcie(2, 0))),
        says=("GPU 3", "0 active"),
    ),
    Case(
        "nvlink-inactive",
        fires=but_gpu(node(tuple(a100_pcie(index, 12) for index in range(4))), 2, nvlinks=links(8, 12, "gpu")),
        # MIG switches a GPU's links off.
        silent=node(
            (
                *(gpu(n, **(MIG_A100 | {"nvlinks": links(12, 12), "mig_mode": nvml(False)})) for n in range(3)),
                gpu(3, **MIG_A100),
            )
        ),
        says=("GPU 2", "8 active"),
    ),
    Case(
        "nvlink-inactive",
        fires=one(nvlinks=links(17)),
        # PCIe cards beside a board with NVSwitches: their links need a bridge.
        silent=but(
            node(tuple(a100_pcie(index, 0) for index in range(2))), "accelerators.pci", h100_node().accelerators.pci
        ),
    ),
    Case(
        "fabric-not-ready",
        fires=every(h100_node(), fabric=nvml(Fabric(2, 0))),
        silent=node(tuple(gpu(n, name=nvml("NVIDIA H100 PCIe"), fabric=nvml(Fabric(1, 0))) for n in range(2))),
        unread=one(fabric=unread()),
        says=("GPUs 0-7", "in progress"),
        commands=("sudo systemctl enable --now nvidia-fabricmanager",),
    ),
    Case(
        "fabric-not-ready",
        fires=one(fabric=nvml(Fabric(3, 999))),
        # The fabric of a superchip is the rack's; IMEX is not needed on a single node (NVSentinel #1471).
        silent=node(tuple(gpu(n, name=nvml("NVIDIA GB200"), fabric=nvml(Fabric(1, 0))) for n in range(4))),
        says=("NVML error 999",),
    ),
    Case(
        "fabric-not-ready",
        fires=one(fabric=nvml(Fabric(1, 0))),
        silent=but_gpu(h100_node(1), 0, fabric=nvml(Fabric(1, 0))),
        says=("has not started",),
    ),
    Case(
        "fabric-not-ready",
        fires=one(fabric=nvml(Fabric(3, 0, 0x9A))),  # a route is unhealthy
        silent=every(h100_node(), fabric=nvml(Fabric(3, 0, 0xAA))),  # the mask of a healthy H100
        severity="warning",
        says=("an unhealthy route",),
    ),
    Case(
        "fabric-not-ready",
        fires=one(fabric=nvml(Fabric(1, 0))),
        silent=every(h100_node(), fabric=nvml(Fabric(0, 0))),
    ),
    Case(
        "ecc-mode-pending",
        fires=one(ecc_mode_pending=nvml(False)),
        unread=one(ecc_mode=unread()),
        severity="warning",
        says=("GPU 3", "ECC on", "ECC off is pending"),
        commands=("sudo nvidia-smi -i 3 -e 1",),
    ),
    Case(
        "ecc-mode-differs",
        fires=one(ecc_mode=nvml(False)),
        silent=node((gpu(0), gpu(1), rtx_4090(2))),
        unread=one(ecc_mode=unread()),
        severity="warning",
        says=("GPUs 0-2,4-7", "off for GPU 3"),
        commands=("sudo nvidia-smi -i 3 -e 1",),
    ),
    Case(
        "power-limit-lowered",
        fires=but_gpu(one(power_limit_watts=nvml(400.0)), 4, power_limit_watts=nvml(400.0)),
        silent=laptop(),
        unread=one(power_limit_watts=unread()),
        severity="warning",
        says=("GPUs 3-4", "400 W", "700 W"),
        commands=("sudo nvidia-smi -i 3,4 -pl 700",),
    ),
    Case(
        "power-limit-lowered",
        fires=every(rtx_4090_node(), power_limit_watts=nvml(300.0)),
        silent=every(rtx_4090_node(), power_limit_watts=nvml(500.0)),
        severity="warning",
        says=("GPUs 0-3",),
    ),
    Case(
        "p2p-unavailable",
        fires=peers(t4_node(), "topology-not-supported"),
        unread=but(t4_node(), "nvidia.peers", unread()),
        severity="warning",
        says=("2 of 2 directions", "GPUs 0-1", "topology"),
        commands=("nvidia-smi topo -p2p r",),
    ),
    # GeForce cards are sold without peer-to-peer: nothing to repair.
    Case("p2p-unavailable", fires=peers(rtx_4090_node(), "chipset-not-supported"), severity="info", says=("12 of 12",)),
    Case("p2p-unavailable", fires=in_vm(peers(t4_node(), "gpu-not-supported")), severity="info"),
    Case(
        "p2p-unavailable",
        fires=node(tuple(rtx_4090(n) for n in range(2)), driver="545.23.08"),
        silent=but(
            node(tuple(rtx_4090(n) for n in range(2)), driver="545.23.08"),
            "environment",
            read("environment of gpudoctor", {"NCCL_P2P_DISABLE": "1"}),
        ),
        unread=but(node(tuple(rtx_4090(n) for n in range(2))), "nvidia.driver_version", unread()),
        severity="warning",
        says=("545.23.08", "550.40.07"),
        commands=("export NCCL_P2P_DISABLE=1",),
    ),
    Case(
        "p2p-unavailable",
        fires=peers(h100_node(2), "disabled-by-registry"),
        # MIG devices reach no peers, and two models need not reach each other.
        silent=peers(node((gpu(0, **MIG_A100), gpu(1, **MIG_A100), t4(2))), "not-supported"),
        severity="warning",
        says=("driver option",),
    ),
    Case(
        "p2p-unavailable",
        fires=peers(t4_node(), "unknown"),
        silent=node((rtx_4090(0), t4(1)), driver="545.23.08"),  # one RTX 40 has no peer
        severity="warning",
    ),
    Case(
        "gpu-busy",
        fires=one(utilization_gpu_percent=nvml(97), processes=nvml((process(4711, 30 * GIB),))),
        silent=node((gpu(0, **MIG_A100), gpu(1, **MIG_A100))),
        unread=one(utilization_gpu_percent=unread()),
        severity="warning",
        says=("GPU 3", "97 %", "4711"),
        commands=("ps -fp 4711",),
    ),
    Case(
        "gpu-busy",
        fires=laptop(utilization_gpu_percent=nvml(34)),
        silent=one(utilization_gpu_percent=nvml(60), processes=nvml((process(77, 500 * MIB, own=True),))),
        severity="info",
    ),
    Case(
        "gpu-memory-held",
        fires=one(memory_used_bytes=nvml(40 * GIB), processes=nvml((process(4711, 40 * GIB),))),
        silent=laptop(),
        unread=one(memory_used_bytes=unread()),
        severity="warning",
        says=("GPU 3", "40.0 of 79.6 GiB", "pid 4711 user ann python train.py 40.0 GiB"),
        commands=("ps -o pid,user,lstart,args -p 4711",),
    ),
    Case(
        "gpu-memory-held",
        fires=one(memory_used_bytes=nvml(70 * GIB), processes=nvml(())),
        silent=one(memory_used_bytes=nvml(3 * GIB), processes=nvml((process(77, 3 * GIB, own=True),))),
        severity="warning",
        says=("70.0 of 79.6 GiB",),
        commands=("sudo fuser -v /dev/nvidia3",),
    ),
    Case(
        "gpu-memory-held",
        fires=in_container(
            one(memory_used_bytes=nvml(9 * GIB), processes=nvml((process(4711, 9 * GIB, hidden=True),)))
        ),
        silent=one(memory_used_bytes=nvml(600 * MIB), processes=nvml((process(900, 15 * MIB),))),  # a monitoring agent
        severity="warning",
        says=("pid 4711 9.0 GiB",),
    ),
    Case(
        "gpu-memory-held",
        fires=one(memory_used_bytes=nvml(70 * GIB), processes=nvml((process(1, 9 * GIB), process(2, GIB)))),
        severity="warning",
        says=("60.0 GiB by no process that is visible",),
    ),
    Case(
        "gpu-memory-held",
        fires=but(
            one(memory_used_bytes=nvml(70 * GIB)),
            "host.stuck_processes",
            read("/proc", (StuckProcess(812, "python", "Z"),)),
        ),
        severity="warning",
    ),
    Case("gpu-memory-held", fires=one(memory_used_bytes=nvml(70 * GIB), processes=unread()), severity="warning"),
    Case(
        "compute-mode-restrictive",
        fires=every(h100_node(), compute_mode=nvml("prohibited")),
        unread=one(compute_mode=unread()),
        says=("GPUs 0-7", "prohibited"),
        commands=("sudo nvidia-smi -i 0,1,2,3,4,5,6,7 -c DEFAULT",),
    ),
    Case(
        "compute-mode-restrictive",
        fires=one(compute_mode=nvml("exclusive-process")),
        severity="warning",
        says=("GPU 3", "exclusive-process"),
    ),
    Case(
        "persistence-mode-off",
        fires=every(h100_node(), persistence_mode=nvml(False)),
        silent=laptop(persistence_mode=nvml(False)),
        unread=one(persistence_mode=unread()),
        severity="warning",
        says=("GPUs 0-7",),
        commands=("sudo nvidia-smi -i 0,1,2,3,4,5,6,7 -pm 1",),
    ),
    Case("persistence-mode-off", fires=in_vm(every(t4_node(), persistence_mode=nvml(False))), severity="info"),
    Case(
        "gpu-models-differ",
        fires=node((gpu(0), gpu(1), t4(2))),
        unread=one(name=unread()),
        severity="info",
        says=("NVIDIA H100 80GB HBM3 (GPUs 0-1)", "Tesla T4 (GPU 2)"),
        commands=("export CUDA_VISIBLE_DEVICES=0,1",),
    ),
    Case(
        "vbios-versions-differ",
        fires=one(vbios_version=nvml("96.00.5E.00.01")),
        silent=but_gpu(rtx_4090_node(), 1, vbios_version=nvml("95.02.3C.80.91")),
        unread=one(vbios_version=unread()),
        severity="info",
        says=("96.00.5E.00.01 on GPU 3",),
    ),
    Case(
        "vbios-versions-differ",
        fires=but_gpu(one(vbios_version=LOST), 5, vbios_version=nvml("96.00.5E.00.01")),
        severity="info",
        says=("GPU 5",),
    ),
    Case(
        "gpu-memory-differs",
        fires=one(memory_total_bytes=nvml(76000 * MIB)),
        silent=one(memory_total_bytes=nvml(81500 * MIB)),
        unread=one(memory_total_bytes=unread()),
        severity="warning",
        says=("GPU 3", "74.2 GiB", "79.6 GiB"),
    ),
    Case(
        "display-active-on-training-gpu",
        fires=but_gpu(rtx_4090_node(), 0, display_active=nvml(True)),
        silent=laptop(),
        unread=one(display_active=unread()),
        severity="info",
        says=("GPU 0", "GPUs 1-3 do not"),
        commands=("export CUDA_VISIBLE_DEVICES=1,2,3",),
    ),
]

NOTHING_OF_THE_KIND: Reading[Any] = absent("/sys/bus/pci/devices, /dev/nvidia*", "no NVIDIA GPU on this machine")
CASES += [
    case._replace(silent=but(h100_node(), "nvidia.gpus", NOTHING_OF_THE_KIND), unread=None)
    for case in {case.check: case for case in reversed(CASES)}.values()
]
"""On a machine without an NVIDIA GPU, none of them applies."""
