"""What GPUDirect RDMA needs of the kernel: the peer memory module, at the three places where NCCL looks for it."""

from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import GpuDirect, Reading, missing

MODULES = {
    "nv_peer_mem": "/sys/kernel/mm/memory_peers/nv_mem/version",
    "nv_peer_mem_nc": "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
    "nvidia_peermem": "/sys/module/nvidia_peermem/version",
}
DRIVER = "/proc/driver/nvidia/version"
SOURCE = "/sys/kernel/mm/memory_peers, /sys/module/nvidia_peermem"
UNKNOWN_VERSION = "present"
"""A file that is there counts for NCCL (it asks access(2) only), whatever it holds."""


def gpu_direct(system: System) -> GpuDirect:
    """Raises `OSError` when a file is there that may not be looked at."""
    versions = {name: _version(system, path) for name, path in MODULES.items()}
    return GpuDirect(**versions, open_kernel_module=_is_open(system))


def _version(system: System, path: str) -> str:
    if not system.exists(path):
        return ""
    try:
        text = system.text(path)
    except OSError:
        return UNKNOWN_VERSION
    return text if 0 < len(text) <= 100 and text.isprintable() else UNKNOWN_VERSION


def _is_open(system: System) -> bool | None:
    """Whether the loaded kernel module is the open one, by the words "Open Kernel Module"; None without a module."""
    words = system.text_or_empty(DRIVER)
    return "Open Kernel Module" in words if "Kernel Module" in words else None


@reader("gpu direct", "network.gpu_direct")
def read_gpu_direct(system: System) -> Reading[GpuDirect]:
    if not system.exists("/sys/module") and not system.exists("/sys/kernel"):
        return missing(SOURCE, "/sys is not mounted here")
    return attempt(SOURCE, lambda: gpu_direct(system), must_exist=True)
