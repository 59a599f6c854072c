"""PCI devices, device files and kernel modules of accelerators of any maker (read/pci.py)."""

from gpudoctor.named import DeviceName, PciAddress
from gpudoctor.snapshot.reading import NOT_IN_SNAPSHOT, Reading
from gpudoctor.snapshot.section import Section

DRIVER_NOT_TOLD = "not told"
"""Plain lspci names no drivers."""


class PciDevice(Section, frozen=True):
    """A display, accelerator or bridge device from /sys/bus/pci/devices; ids and class in lower-case hex."""

    bus_id: PciAddress
    """As in sysfs: "0000:5d:00.0"."""
    vendor: str
    device: str
    device_class: str
    driver: str = ""
    """Empty where no driver is bound; `DRIVER_NOT_TOLD` where nothing says."""
    numa_node: int = -1
    link_width: int | None = None
    link_width_max: int | None = None
    link_speed: str = ""
    link_speed_max: str = ""
    model: str = ""
    """As lspci names it: "H100 SXM5 80GB"; only of pasted output."""
    uncorrected_errors: int | None = None
    """Counted since the driver was loaded; only of pasted output of amd-smi."""
    is_silent: bool = False
    """lspci says "(rev ff)": its configuration space reads all ones."""


class DeviceNode(Section, frozen=True):
    """A device file; `readable` and `writable` are for the user who ran the doctor (access(2))."""

    path: str
    readable: bool
    writable: bool
    mode: int
    owner: str
    group: str


class Accelerators(Section, frozen=True):
    """Devices of any maker, without their drivers' help."""

    pci: Reading[tuple[PciDevice, ...]] = NOT_IN_SNAPSHOT
    """GPUs, accelerators and NVSwitches (class 03xx, 12xx, 0680xx of NVIDIA; Google's vendor 0x1ae0)."""
    device_nodes: Reading[tuple[DeviceNode, ...]] = NOT_IN_SNAPSHOT
    """/dev/nvidia*, /dev/nvidia-caps, /dev/kfd, /dev/dri/renderD*, /dev/accel*, /dev/vfio/*, /dev/dxg."""
    kernel_modules: Reading[tuple[DeviceName, ...]] = NOT_IN_SNAPSHOT
    """Loaded modules that drive accelerators: nvidia, nvidia_uvm, nvidia_peermem, nouveau, amdgpu, i915, xe, ..."""
