"""The answer of `gpudoctor topology`: GPUs and RDMA devices, how far apart each two are, and the tree they sit in."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec import Struct

from gpudoctor.envelope import Answer
from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.nccl.transports import transports
from gpudoctor.knowledge.network.gpu_direct import verdicts
from gpudoctor.knowledge.network.topology import (
    address_of,
    class_or_reason,
    disagreements,
    nccl_class,
    nvlinks_between,
)
from gpudoctor.knowledge.wording import ranges
from gpudoctor.snapshot import Gpu, NotRead, PciPath, RdmaDevice, Snapshot


class TreeDevice(Struct, frozen=True):
    """A GPU or an RDMA device."""

    label: str
    """ "GPU0" (nvidia-smi's index), "NIC0"."""
    name: str
    """The GPU's model, or the RDMA device's name."""
    pci: str | None
    numa_node: int | None
    cpus: str | None
    """CPUs near it, "0-55,112-167"; of a NIC those of its NUMA node."""
    ports: str = ""
    """Of a NIC: "InfiniBand 400 Gb/s ACTIVE"."""


class Pair(Struct, frozen=True):
    """How two devices reach each other. `path` is NCCL's class, None when nobody can tell (`reason` says why)."""

    a: str
    b: str
    path: str | None
    nvidia_smi: str | None
    """What `nvidia-smi topo -m` calls it: "NV18", "NODE" for some of NCCL's PHB."""
    nvlinks: int = 0
    reason: str = ""
    gpu_direct: bool | None = None
    """Of a GPU and a NIC that NCCL takes: whether it uses GPUDirect RDMA; None when nobody can tell."""
    gpu_direct_reason: str = ""
    transport: str | None = None
    """Of two GPUs: how NCCL joins them, "P2P", "SHM" (host memory), "NET", "none" where it refuses to start; None when
    nobody can tell."""
    transport_reason: str = ""


class Branch(Struct, frozen=True):
    """A part of the tree: a NUMA node, a host bridge, a PCIe bridge, or a device, which has no children."""

    name: str
    children: "tuple[Branch, ...]" = ()


class TopologyAnswer(Answer, frozen=True, kw_only=True):
    """What `gpudoctor topology` says."""

    command: ClassVar[str] = "topology"
    signs: ClassVar[tuple[str, ...]] = ("pairs", "tree")
    gpus: tuple[TreeDevice, ...]
    nics: tuple[TreeDevice, ...]
    pairs: tuple[Pair, ...]
    tree: tuple[Branch, ...]
    """() where the PCI tree could not be read."""
    notes: tuple[str, ...] = ()
    """What could not be read, and where NVML and the PCI tree disagree."""

    @property
    def exit_status(self) -> int:
        """3 where there is nothing to show."""
        return 0 if self.gpus or self.nics else 3


def topology(machine: Snapshot) -> TopologyAnswer:
    """Everything that is known of the places of GPUs and NICs; what is not known is a note."""
    notes: list[str] = []
    gpus = machine.nvidia.gpus.value_or(())
    nics = machine.network.rdma_devices.value_or(())
    for what, reading in (
        ("GPUs", machine.nvidia.gpus),
        ("RDMA devices", machine.network.rdma_devices),
        ("the PCI tree", machine.network.pci_paths),
    ):
        if not reading.is_read and reading.missing_kind != "absent":
            notes.append(f"{what}: not read ({reading.source}: {reading.reason})")
    labelled = [(f"GPU{gpu.index}", sysfs_address(gpu)) for gpu in gpus]
    labelled += [(f"NIC{index}", address_of(nic)) for index, nic in enumerate(nics)]
    return TopologyAnswer(
        gpus=tuple(_gpu(gpu) for gpu in gpus),
        nics=tuple(_nic(machine, index, nic) for index, nic in enumerate(nics)),
        pairs=_pairs(machine, gpus, nics, notes),
        tree=_tree(machine, labelled),
        notes=(*notes, *_disagreements(machine)),
    )


def _gpu(gpu: Gpu) -> TreeDevice:
    cpus = gpu.cpu_affinity.value_or(None)
    return TreeDevice(
        f"GPU{gpu.index}",
        gpu.name.value_or("?"),
        sysfs_address(gpu) or None,
        gpu.numa_node.value_or(None),
        ranges(cpus) if cpus else None,
    )


def _nic(machine: Snapshot, index: int, nic: RdmaDevice) -> TreeDevice:
    numa = nic.numa_node.value_or(None)
    cpus = (machine.host.numa_nodes.value_or({}) or {}).get(numa, ()) if numa is not None else ()
    ports = []
    for port in nic.ports:
        rate = port.rate_gbps.value_or(None)
        words = (
            {"Ethernet": "RoCE"}.get(port.link_layer.value_or(""), port.link_layer.value_or("")),
            f"{rate:g} Gb/s" if rate is not None else "",
            port.state.value_or("state unknown"),
        )
        ports.append(" ".join(word for word in words if word))
    return TreeDevice(f"NIC{index}", nic.name, address_of(nic) or None, numa, ranges(cpus) or None, "; ".join(ports))


def _pairs(machine: Snapshot, gpus: Sequence[Gpu], nics: Sequence[RdmaDevice], notes: list[str]) -> tuple[Pair, ...]:
    try:
        direct = {(verdict.gpu, verdict.device): verdict for verdict in verdicts(machine)} if gpus and nics else {}
    except NotRead as error:
        direct = {}
        notes.append(f"GPUDirect RDMA: not known ({error})")
    try:
        ways = {(way.gpu, way.other): way for way in transports(machine)} if len(gpus) > 1 else {}
    except NotRead as error:
        ways = {}
        notes.append(f"How NCCL joins the GPUs: not known ({error})")
    pairs: list[Pair] = []
    for place, gpu in enumerate(gpus):
        for other in gpus[place + 1 :]:
            links = nvlinks_between(machine, gpu, other)
            pair = _pair(machine, (f"GPU{gpu.index}", sysfs_address(gpu)), (f"GPU{other.index}", sysfs_address(other)))
            named = f"NV{links}" if links else pair.nvidia_smi
            pair = msgspec.structs.replace(pair, nvlinks=links, nvidia_smi=named)
            if way := ways.get((gpu.index, other.index)):
                pair = msgspec.structs.replace(pair, transport=way.kind, transport_reason=way.reason)
            pairs.append(pair)
        for index, nic in enumerate(nics):
            pair = _pair(machine, (f"GPU{gpu.index}", sysfs_address(gpu)), (f"NIC{index}", address_of(nic)))
            verdict = direct.get((gpu.index, nic.name))
            if verdict is not None:
                pair = msgspec.structs.replace(pair, gpu_direct=verdict.used, gpu_direct_reason=verdict.reason)
            pairs.append(pair)
    for index, nic in enumerate(nics):
        for later in range(index + 1, len(nics)):
            pairs.append(_pair(machine, (f"NIC{index}", address_of(nic)), (f"NIC{later}", address_of(nics[later]))))
    return tuple(pairs)


def _pair(machine: Snapshot, one: tuple[str, str], other: tuple[str, str]) -> Pair:
    path, reason = class_or_reason(machine, one[1], other[1])
    return Pair(one[0], other[0], nccl_class(path) or None, path or None, reason=reason)


def _disagreements(machine: Snapshot) -> list[str]:
    try:
        pairs = disagreements(machine)
    except NotRead:
        return []
    return [
        f"NVML sees GPU{pair.gpu} and GPU{pair.other} {pair.by_nvml} apart, the PCI tree {pair.by_tree}"
        for pair in pairs
    ]


# ---------------------------------------------------------------- the tree


class _TreeNode:
    """A part of the tree while it grows."""

    def __init__(self) -> None:
        self.children: dict[str, _TreeNode] = {}
        self.devices: list[str] = []


def _tree(machine: Snapshot, labelled: Sequence[tuple[str, str]]) -> tuple[Branch, ...]:
    paths = machine.network.pci_paths.value_or({})
    top = _TreeNode()
    for label, address in labelled:
        path = paths.get(address)
        if path is None:
            continue
        here = top
        for part in _way(path):
            here = here.children.setdefault(part, _TreeNode())
        here.devices.append(f"{label} {address}")
    return tuple(_branch(name, top.children[name]) for name in sorted(top.children))


def _way(path: PciPath) -> list[str]:
    node = f"NUMA node {path.numa_node}" if path.numa_node >= 0 else "NUMA node unknown"
    return [node, f"host bridge {path.root}" if path.root else "host bridge unknown", *reversed(path.upstream)]


def _branch(name: str, node: _TreeNode) -> Branch:
    """Only where ways part is there anything to see: of a chain of bridges that leads to one thing, the last is shown.

    That is a switch's upstream port, where there is a switch.
    """
    while len(node.children) == 1 and not node.devices and not name.startswith("NUMA node"):
        below, child = next(iter(node.children.items()))
        if len(child.devices) == 1 and not child.children:
            node = child  # the slot's own port
            break
        name, node = f"{name.partition(',')[0]}, {_called(below)}" if name.startswith("host") else _called(below), child
    children: list[Branch] = [Branch(device) for device in node.devices]
    for part, child in node.children.items():
        branch = _branch(_called(part), child)
        alone = part[:1].isalnum() and not part.startswith("host") and len(branch.children) == 1
        children.append(branch.children[0] if alone else branch)
    return Branch(name, tuple(children))


def _called(part: str) -> str:
    return part if part.startswith("host bridge") else f"PCIe bridge {part}"
