"""Machines for the tests of GPU and driver checks: an 8xH100 with one GPU changed, a notebook, MIG, containers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gpudoctor.snapshot import (
    GpuProcess,
    NvLink,
    PeerAccess,
    Reading,
    Snapshot,
    missing,
    read,
)
from gpudoctor.testing.machines import (
    MIB,
    UNSUPPORTED,
    but,
    but_gpu,
    gpu,
    h100_node,
    node,
    nvml,
    rtx_4090,
    unread,
)

LOST = missing("nvmlDeviceGetMemoryInfo GPU 3", "the GPU is lost (NVML error 15, GpuIsLost)", "lost")
DENIED: dict[str, Any] = {
    name: unread("nvmlDeviceGetHandleByIndex GPU 3", "no permission (NVML error 4, NoPermission)")
    for name in gpu(0).__struct_fields__
    if name != "index"
}
UNPOWERED: dict[str, Any] = {
    name: missing("nvmlDeviceGetHandleByIndex GPU 3", "NVML error 8, InsufficientPower") for name in DENIED
}


def said(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Bare values as NVML's answers."""
    return {name: fact if isinstance(fact, Reading) else nvml(fact) for name, fact in fields.items()}


def one(**fields: Any) -> Snapshot:
    """The 8xH100 with GPU 3 changed."""
    return but_gpu(h100_node(), 3, **said(fields))


def in_container(machine: Snapshot, kind: str = "docker") -> Snapshot:
    return but(but(machine, "host.container", kind), "host.fabric_manager", unread("/proc"))


def in_vm(machine: Snapshot) -> Snapshot:
    return but(machine, "host.virtualization", "kvm")


def without_switches(machine: Snapshot) -> Snapshot:
    devices = machine.accelerators.pci.value
    kept = tuple(device for device in devices if not device.device_class.startswith("0x0680"))
    return but(machine, "accelerators.pci", kept)


def links(active: int, count: int = 18, remote: str = "switch") -> Reading[Any]:
    return nvml(tuple(NvLink(link, link < active, remote, replay_errors=0, recovery_errors=0) for link in range(count)))


def every(machine: Snapshot, **fields: Any) -> Snapshot:
    """The machine with fields of all its GPUs changed."""
    return but(
        machine,
        "nvidia.gpus",
        tuple(msgspec.structs.replace(each, **said(fields)) for each in machine.nvidia.gpus.value),
    )


def peers(machine: Snapshot, status: str) -> Snapshot:
    """The machine with every pair's peer-to-peer status."""
    pairs = machine.nvidia.peers.value
    return but(machine, "nvidia.peers", tuple(PeerAccess(pair.from_gpu, pair.to_gpu, status) for pair in pairs))


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
    return gpu(index, name="NVIDIA A100 80GB PCIe", nvlinks=links(active, 12, "gpu"), fabric=UNSUPPORTED)


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
    return node((rtx_4090(0, **(chip | said(fields))),))


def rtx_3070_node() -> Snapshot:
    """Two desktop cards, one of them in the slot that the chipset serves with four lanes."""
    cards = (
        rtx_4090(0, name="NVIDIA GeForce RTX 3070", display_active=True),
        rtx_4090(1, name="NVIDIA GeForce RTX 3070", pcie_width=4, pcie_width_max=4),
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
