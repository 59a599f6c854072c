"""How two PCI devices reach each other: NCCL's path classes, from NVLink, NVML's levels and the PCI tree of /sys.

Classes, nearest first: SELF; NVL over NVLink; PIX through one PCIe switch at most; PXB through several; PHB through
one host bridge; NODE through several host bridges of one NUMA node (nvidia-smi's word: NCCL knows NUMA nodes only and
calls it PHB); SYS between NUMA nodes. Sources: NCCL src/graph/topo.h and paths.cc (2.4 to 2.30), nvml.h
(nvmlGpuTopologyLevel_t), the legend of `nvidia-smi topo -m`.
"""

from typing import NamedTuple

from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.pci_address import in_sysfs
from gpudoctor.snapshot import Gpu, NotRead, PciPath, RdmaDevice, Snapshot, missing

ORDER = ("SELF", "NVL", "PIX", "PXB", "PHB", "NODE", "SYS")
LEVELS = {
    "internal": "PIX",  # two GPUs on one board; NCCL sees the board's switch
    "single": "PIX",
    "multiple": "PXB",
    "hostbridge": "PHB",
    "node": "NODE",
    "system": "SYS",
}
"""nvmlGpuTopologyLevel_t (0, 10, 20, 30, 40, 50) by the snapshot's words."""
BRIDGES_OF_A_SWITCH = 2
"""Its downstream port and its upstream port; NCCL climbs two bridges at a time for the same reason (graph/xml.cc)."""


class Disagreement(NamedTuple):
    """Two GPUs that NVML and the PCI tree see at different distances."""

    gpu: int
    other: int
    by_nvml: str
    by_tree: str


def path_class(machine: Snapshot, a: str, b: str) -> str:
    """The class of two PCI addresses of any form. Raises `NotRead`, and `ValueError` for what is no address."""
    first, second = in_sysfs(a), in_sysfs(b)
    if first == second:
        return "SELF"
    one, other = gpu_at(machine, first), gpu_at(machine, second)
    if one is not None and other is not None:
        if nvlinks_between(machine, one, other):
            return "NVL"
        level = nvml_class(machine, one, other)
        if level is not None:
            return level
    return tree_class(machine, first, second)


def nccl_class(path: str) -> str:
    """NCCL's name of a class: it has no NODE."""
    return "PHB" if path == "NODE" else path


def tree_class(machine: Snapshot, first: str, second: str) -> str:
    """The class by the PCI tree alone, of addresses in sysfs' form. Raises `NotRead`."""
    paths = machine.network.pci_paths.value
    for address in (first, second):
        if address not in paths or not paths[address].root:
            source = machine.network.pci_paths.source
            raise NotRead(missing(source, f"{address} is not in the PCI tree that is visible here"))
    return between(paths[first], paths[second])


def between(one: PciPath, other: PciPath) -> str:
    """The class of two places in the tree."""
    if one.bus_id == other.bus_id:
        return "SELF"
    if one.bus_id in other.upstream or other.bus_id in one.upstream:
        return "PIX"
    heights = {bridge: height for height, bridge in enumerate(one.upstream)}
    for height, bridge in enumerate(other.upstream):
        if bridge in heights:
            return "PIX" if max(height, heights[bridge]) < BRIDGES_OF_A_SWITCH else "PXB"
    if one.root == other.root:
        return "PHB"
    return "NODE" if one.numa_node == other.numa_node else "SYS"


def nvml_class(machine: Snapshot, one: Gpu, other: Gpu) -> str | None:
    """The class by NVML's level; None when NVML did not say."""
    pair = {one.index, other.index}
    for level in machine.nvidia.topology.value_or(()):
        if {level.gpu, level.other} == pair:
            return LEVELS.get(level.level)
    return None


def nvlinks_between(machine: Snapshot, one: Gpu, other: Gpu) -> int:
    """NVLinks that lead from one GPU to the other, directly or over NVSwitches; 0 when NVML says of none.

    Both ends count: of a link that one end does not tell, the other one may; and where they differ, so many carry
    data as both have.
    """
    direct = [number for number in (_direct(one, other), _direct(other, one)) if number]
    if direct:
        return min(direct)
    switched = min(_switched(one), _switched(other))
    if switched:
        # Whether the fabric really joins the two is NVML's to say; silence of NVML leaves what the links show.
        peers = machine.nvidia.peers.value_or(())
        refused = any(
            {peer.from_gpu, peer.to_gpu} == {one.index, other.index} and peer.nvlink not in ("ok", "unknown")
            for peer in peers
        )
        return 0 if refused else switched
    return 0


def _direct(gpu: Gpu, other: Gpu) -> int:
    return sum(link.active is True and _same(link.remote_pci_bus_id, other) for link in gpu.nvlinks.value_or(()))


def _switched(gpu: Gpu) -> int:
    return sum(link.active is True and link.remote == "switch" for link in gpu.nvlinks.value_or(()))


def _same(address: str, gpu: Gpu) -> bool:
    try:
        return bool(address) and in_sysfs(address) == sysfs_address(gpu)
    except ValueError:
        return False


def gpu_at(machine: Snapshot, address: str) -> Gpu | None:
    """The GPU at an address in sysfs' form."""
    return next((gpu for gpu in machine.nvidia.gpus.value_or(()) if sysfs_address(gpu) == address), None)


def address_of(device: RdmaDevice) -> str:
    """An RDMA device's PCI address in sysfs' form; empty for one without PCI (soft RoCE), or when not known."""
    try:
        return in_sysfs(device.pci_bus_id.value_or(""))
    except ValueError:
        return ""


def class_or_reason(machine: Snapshot, a: str, b: str) -> tuple[str, str]:
    """The class and "", or "" and why nobody can tell."""
    try:
        return path_class(machine, a, b), ""
    except NotRead as error:
        return "", str(error)
    except ValueError:
        return "", "its PCI address is not known"


def nearest(machine: Snapshot, gpu: str) -> tuple[tuple[RdmaDevice, ...], str]:
    """The RDMA devices that the GPU at an address is closest to, and their class; () and "" when none is known."""
    by_gpu: dict[str, list[RdmaDevice]] = {}
    for device in machine.network.rdma_devices.value_or(()):
        path, _ = class_or_reason(machine, gpu, address_of(device))
        if path:
            by_gpu.setdefault(path, []).append(device)
    best = min(by_gpu, key=ORDER.index, default="")
    return tuple(by_gpu.get(best, ())), best


def disagreements(machine: Snapshot) -> tuple[Disagreement, ...]:
    """Pairs of GPUs whose distance NVML and the PCI tree tell differently. Raises `NotRead`."""
    gpus = {gpu.index: gpu for gpu in machine.nvidia.gpus.value}
    pairs = []
    for level in machine.nvidia.topology.value:
        one, other = gpus.get(level.gpu), gpus.get(level.other)
        by_nvml = LEVELS.get(level.level)
        if one is None or other is None or by_nvml is None:
            continue
        addresses = sysfs_address(one), sysfs_address(other)
        if not all(addresses):
            continue
        by_tree = tree_class(machine, *addresses)
        # The two count NUMA nodes of one host bridge differently; what matters is whether a switch is shared.
        if shares_switch(by_nvml) != shares_switch(by_tree):
            pairs.append(Disagreement(one.index, other.index, by_nvml, by_tree))
    return tuple(pairs)


def shares_switch(path: str) -> bool:
    """Whether traffic stays below the CPU."""
    return path in ("SELF", "NVL", "PIX", "PXB")


def is_flat(path: PciPath) -> bool:
    """Whether a device stands on a root bus without any bridge, as hypervisors show what they pass through."""
    return not path.upstream
