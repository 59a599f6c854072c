"""What a snapshot says of NVIDIA hardware without NVML's help, and where the doctor stands: container, VM, copy."""

import re

from gpudoctor.knowledge.gpus.gpu_lookup import same_address
from gpudoctor.knowledge.gpus.gpu_models import is_laptop
from gpudoctor.snapshot import DeviceNode, Gpu, PciDevice, Reading, Snapshot, is_left_out

VENDOR = "0x10de"
DISPLAY_CLASS = "0x03"  # PCI base class 03, display controllers: VGA 0300 and 3D 0302
SWITCH_CLASS = "0x0680"  # PCI class 0680, other bridge: how NVSwitches announce themselves
CONTROL = "/dev/nvidiactl"
EVERYBODY = 0o006  # read and write for others
PASSED_ON = ("vfio-pci", "pci-stub", "xen-pciback")
"""Drivers that hold a GPU for a virtual machine: the host is not meant to use it."""


def gpus_on_pci(machine: Snapshot) -> tuple[PciDevice, ...]:
    """NVIDIA's display devices on the PCI bus, without those passed on to virtual machines. Raises `NotRead`."""
    return tuple(
        device
        for device in machine.accelerators.pci.value
        if device.vendor == VENDOR and device.device_class.startswith(DISPLAY_CLASS) and device.driver not in PASSED_ON
    )


def is_in_laptop(gpu: Gpu, machine: Snapshot) -> bool:
    """Soldered into a notebook, as its name says or lspci's beside it ("GTX 1650 Ti Mobile").

    Raises `NotRead` where it has no name.
    """
    name, address = gpu.name.value, gpu.pci_bus_id.value_or("")
    on_bus = (device.model for device in machine.accelerators.pci.value_or(()) if same_address(device.bus_id, address))
    return is_laptop(name) or any(map(is_laptop, on_bus))


def switches_on_pci(machine: Snapshot) -> tuple[PciDevice, ...]:
    """The NVSwitches on the PCI bus. Raises `NotRead`."""
    return tuple(
        device
        for device in machine.accelerators.pci.value
        if device.vendor == VENDOR and device.device_class.startswith(SWITCH_CLASS) and device.driver not in PASSED_ON
    )


def gpu_nodes(machine: Snapshot) -> tuple[DeviceNode, ...]:
    """/dev/nvidiactl and /dev/nvidiaN. Raises `NotRead`."""
    nodes = machine.accelerators.device_nodes.value
    return tuple(node for node in nodes if re.fullmatch(r"/dev/nvidia(ctl|\d+)", node.path, re.ASCII))


def withheld_nodes(machine: Snapshot) -> tuple[DeviceNode, ...]:
    """The /dev/nvidiaN that everybody may open by their mode, and this process may not: another job's GPUs.

    Slurm (ConstrainDevices), PBS and LSF keep them from a job with a device cgroup, which access(2) asks too (Linux:
    devcgroup_inode_permission). Raises `NotRead`.
    """
    return tuple(
        node
        for node in gpu_nodes(machine)
        if node.path != CONTROL and node.mode & EVERYBODY == EVERYBODY and not (node.readable and node.writable)
    )


def is_of_a_file(machine: Snapshot) -> bool:
    """Whether it comes from output that tells of no hardware but what nvidia-smi shows."""
    return is_pasted(machine) and is_left_out(machine.accelerators.pci)


def is_pasted(machine: Snapshot) -> bool:
    """Whether it comes from output of tools, which never tells of containers, jobs and the like."""
    return machine.origin != Snapshot().origin


def has_gpu(machine: Snapshot) -> bool:
    """Whether there is an NVIDIA GPU for a driver to serve. Raises `NotRead` when that cannot be told.

    Of a file that does not tell: whoever asked nvidia-smi there, and asks us, means to have one.
    """
    if is_of_a_file(machine):
        return True
    nodes = machine.accelerators.device_nodes
    if nodes.is_read and gpu_nodes(machine):
        return True
    return bool(gpus_on_pci(machine))


def in_container(machine: Snapshot) -> bool:
    """Raises `NotRead` when it is not known: for what is no fault there. Words ask `perhaps_in_container`."""
    return machine.host.container.value != "none"


def perhaps_in_container(machine: Snapshot) -> bool | None:
    """None when it is not known: then the words hold for both."""
    return machine.host.container.value != "none" if machine.host.container.is_read else None


def perhaps_in_virtual_machine(machine: Snapshot) -> bool | None:
    """None when it is not known: then the words hold for both."""
    return machine.host.virtualization.value != "none" if machine.host.virtualization.is_read else None


def in_wsl(machine: Snapshot) -> bool:
    """Raises `NotRead` when it is not known."""
    return machine.host.virtualization.value == "wsl2"


def went_wrong(reading: Reading[object]) -> bool:
    """Whether reading a fact failed, here or where a file was written, as opposed to nobody having tried."""
    return reading.missing_kind == "failed" and not is_left_out(reading)


def crashed(reading: Reading[object]) -> bool:
    """Whether the process that asked for the fact was killed by a signal, as by a library's segmentation fault.

    A crash has no error number: `gpudoctor.active.Reply.failure` words it so. A child that ended by itself with an exit
    status is a fault of the doctor or its installation, and no word about the driver.
    """
    return went_wrong(reading) and "killed by SIG" in reading.reason
