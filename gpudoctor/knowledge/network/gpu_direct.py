"""Whether NCCL would use GPUDirect RDMA between a GPU and an RDMA device, and if not, which condition fails.

Source: NCCL src/transport/net_ib/gdr.cc (the modules), init.cc (dmaBufSupported), graph/paths.cc (ncclTopoCheckGdr,
ncclGetLevel), read at 2.30; versions of each rule as the tags show it.
"""

import re
from typing import Literal, NamedTuple

from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.nccl.settings import Setting, effective, nccl_version, set_integer, topology_file
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.network.topology import address_of, class_or_reason, nccl_class
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import CudaDevice, Gpu, RdmaDevice, Snapshot

Condition = Literal["", "module", "gpu", "distance", "unknown"]
"""What fails: the kernel's part (module or DMA-BUF), the GPU's, the distance; "unknown" for what nobody told."""

Version = tuple[int, int, int]

MODULE_SINCE: dict[str, Version] = {
    "nv_peer_mem": (0, 0, 0),
    "nv_peer_mem_nc": (2, 22, 3),
    "nvidia_peermem": (2, 23, 4),
}
"""The NCCL that first looks at each place. Before 2.23.4 nvidia_peermem is seen as nv_mem, where MLNX_OFED shows it."""
DMA_BUF_SINCE: Version = (2, 13, 4)
DMA_BUF_CUDA = (11, 7)
DMA_BUF_KERNEL = (5, 12)
"""Linux 5.12 brought ibv_reg_dmabuf_mr, to mlx5 first (drivers/infiniband/core/umem_dmabuf.c)."""
DMA_BUF_DRIVERS = ("mlx5_core", "mlx5_ib")

LEVEL_NAMES = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
"""graph/topo.h of 2.30, nearest first; older releases lack some and keep the order of the rest."""
OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")
"""What the numbers 0 to 5 mean (levelsOldToNew in graph/topo.cc)."""
C2C_SINCE: Version = (2, 27, 3)
GRACE = lazy_re(r"\bG[HB]\d{3}\b")
"""GH200, GB200, GB300: GPU and CPU joined by NVLink-C2C, so that a NIC of that CPU counts as P2C."""


class GdrVerdict(NamedTuple):
    """GPUDirect RDMA between one GPU and one device that NCCL takes."""

    gpu: int
    device: str
    used: bool | None
    """None when nobody can tell."""
    reason: str
    """The condition that fails, what could not be told, or by which way it is used."""
    path: str
    """NCCL's class; empty when not known."""
    condition: Condition = ""


class Level(NamedTuple):
    """How far GPU and NIC may be apart."""

    name: str
    why: str
    """ "the default of NCCL 2.29.7", "NCCL_NET_GDR_LEVEL=2"."""

    def allows(self, path: str) -> bool:
        return LEVEL_NAMES.index(path) <= LEVEL_NAMES.index(self.name)


def level(machine: Snapshot) -> Level:
    """The distance that NCCL_NET_GDR_LEVEL or the default allows. Raises `NotRead`."""
    settings = effective(machine)
    setting = settings.get("NCCL_NET_GDR_LEVEL")
    if setting is not None:
        name = parsed_level(setting.value)
        if name:
            return Level(name, f"NCCL_NET_GDR_LEVEL={setting.value}")
    version = nccl_version(machine)
    c2c = version >= C2C_SINCE and set_integer(settings, "NCCL_NET_GDR_C2C", 1) != 0
    grace = any(GRACE.search(gpu.name.value_or("")) for gpu in machine.nvidia.gpus.value_or(()))
    return Level("P2C" if c2c and grace else "PXB", "NCCL's default")  # without C2C no path is a P2C, and PXB says it


def parsed_level(text: str) -> str:
    """The level that NCCL takes from a text: a name in capitals, or an old number; empty for what it ignores."""
    if text in LEVEL_NAMES:
        return text
    match = re.match("[0-9]{1,9}", text)
    return OLD_LEVELS[min(int(match[0]), len(OLD_LEVELS) - 1)] if match else ""


def peer_memory(machine: Snapshot) -> str:
    """The module through which this NCCL registers GPU memory; empty when it sees none. Raises `NotRead`."""
    facts, version = machine.network.gpu_direct.value, nccl_version(machine)
    return next((name for name, since in MODULE_SINCE.items() if getattr(facts, name) and version >= since), "")


def dma_buf(machine: Snapshot, gpu: Gpu, device: RdmaDevice) -> tuple[bool | None, str]:
    """Whether DMA-BUF works between the two, and if not, or nobody can tell, why. Raises `NotRead`."""
    version = nccl_version(machine)
    if version < DMA_BUF_SINCE:
        return False, "NCCL knows DMA-BUF since 2.13.4"
    off = _switched_off(effective(machine))
    if off:
        return False, off
    cuda = machine.nvidia.cuda_version.value
    if cuda < DMA_BUF_CUDA:
        return False, f"DMA-BUF wants a driver of CUDA 11.7; this one serves {cuda[0]}.{cuda[1]}"
    kernel = kernel_version(machine.host.kernel_release.value)
    if kernel and kernel < DMA_BUF_KERNEL:
        return False, f"DMA-BUF wants Linux 5.12; this is {kernel[0]}.{kernel[1]}"
    known = cuda_device(machine, gpu)
    supported = known.dma_buf if known else None
    if supported is False:
        return False, _not_offered(machine)
    if supported is None:
        return None, "the CUDA driver did not say whether this GPU offers DMA-BUF"
    if device.driver not in DMA_BUF_DRIVERS:
        return (
            None,
            f"whether the kernel driver {device.driver or 'of the NIC'} takes DMA-BUF cannot be seen from outside",
        )
    return True, ""


def _switched_off(settings: dict[str, Setting]) -> str:
    if set_integer(settings, "NCCL_DMABUF_ENABLE", 1) == 0:
        return f"NCCL_DMABUF_ENABLE={settings['NCCL_DMABUF_ENABLE'].value} turns DMA-BUF off"
    return ""


def _not_offered(machine: Snapshot) -> str:
    closed = machine.network.gpu_direct.value.open_kernel_module is False
    return "the GPU driver does not offer DMA-BUF" + (" (its open kernel module would)" if closed else "")


def kernel_version(release: str) -> tuple[int, int] | None:
    """(6, 8) of "6.8.0-60-generic"."""
    match = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", release)
    return (int(match[1]), int(match[2])) if match else None


def cuda_device(machine: Snapshot, gpu: Gpu) -> CudaDevice | None:
    """The GPU as the CUDA driver enumerates it, with or without CUDA_VISIBLE_DEVICES."""
    address = gpu.pci_bus_id.value_or("")
    for answer in (machine.cuda.all, machine.cuda.visible):
        facts = answer.value_or(None)
        for device in facts.devices if facts else ():
            if address and device.pci_bus_id == address:
                return device
    return None


def verdicts(machine: Snapshot) -> tuple[GdrVerdict, ...]:
    """Every GPU with every device that NCCL takes. Raises `NotRead`, `NotApplicable` without an NVIDIA GPU."""
    gpus = machine.nvidia.gpus.value
    names = {name for name, _ in rdma_choice(machine).taken}
    devices = [device for device in machine.network.rdma_devices.value if device.name in names]
    if not devices:
        return ()
    allowed, module = level(machine), peer_memory(machine)
    return tuple(_verdict(machine, gpu, device, allowed, module) for gpu in gpus for device in devices)


def _verdict(machine: Snapshot, gpu: Gpu, device: RdmaDevice, allowed: Level, module: str) -> GdrVerdict:
    found, unknown = class_or_reason(machine, sysfs_address(gpu), address_of(device))
    path = _with_c2c(gpu, nccl_class(found)) if found else ""

    def verdict(used: bool | None, reason: str, condition: Condition = "") -> GdrVerdict:
        return GdrVerdict(gpu.index, device.name, used, reason, path, condition)

    known = cuda_device(machine, gpu)
    if known is not None and known.gpu_direct_rdma is False:
        return verdict(False, "this GPU does not offer GPUDirect RDMA", "gpu")
    way, ways = (f"by {module}", "") if module else ("", "")
    if not module:
        works, ways = dma_buf(machine, gpu, device)
        if works is False:
            return verdict(False, f"no peer memory module is loaded, and {ways}", "module")
        way = "by DMA-BUF" if works else ""
    if file := topology_file(machine):
        return verdict(None, f"NCCL goes by {file}, and not by what is between them here", "unknown")
    if not path:
        return verdict(None, unknown, "unknown")
    if not allowed.allows(path):
        return verdict(False, f"the two are {path} apart, and {allowed.why} allows {allowed.name}", "distance")
    if known is None or known.gpu_direct_rdma is None:
        return verdict(None, "the CUDA driver did not say whether this GPU offers GPUDirect RDMA", "unknown")
    if not way:
        return verdict(None, f"no peer memory module is loaded, and {ways}", "unknown")
    return verdict(True, way)


def _with_c2c(gpu: Gpu, path: str) -> str:
    return "P2C" if path == "PHB" and GRACE.search(gpu.name.value_or("")) else path
