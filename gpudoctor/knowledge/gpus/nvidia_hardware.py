"""What a snapshot says of NVIDIA hardware without NVML's help, and where the doctor stands: container, VM, copy."""

import re

from gpudoctor.snapshot import NOT_IN_SNAPSHOT, DeviceNode, PciDevice, Reading, Snapshot

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


def has_gpu(machine: Snapshot) -> bool:
    """Whether there is an NVIDIA GPU for a driver to serve. Raises `NotRead` when that cannot be told."""
    nodes = machine.accelerators.device_nodes
    if nodes.is_read and gpu_nodes(machine):
        return True
    return bool(gpus_on_pci(machine))


def in_container(machine: Snapshot) -> bool:
    """Raises `NotRead` when it is not known."""
    return machine.host.container.value != "none"


def in_virtual_machine(machine: Snapshot) -> bool:
    """Raises `NotRead` when it is not known."""
    return machine.host.virtualization.value != "none"


def in_wsl(machine: Snapshot) -> bool:
    """Raises `NotRead` when it is not known."""
    return machine.host.virtualization.value == "wsl2"


def went_wrong(machine: Snapshot, reading: Reading[object]) -> bool:
    """Whether reading a fact failed here, as opposed to nobody having tried.

    A partial snapshot and a pasted nvidia-smi output have facts of kind "failed" too: those that they lack.
    """
    return reading.missing_kind == "failed" and reading != NOT_IN_SNAPSHOT and machine.origin == "this machine"


def crashed(machine: Snapshot, reading: Reading[object]) -> bool:
    """Whether the process that asked for the fact was killed by a signal, as by a library's segmentation fault.

    A crash has no error number: `gpudoctor.active.Reply.failure` words it so. A child that ended by itself with an exit
    status is a fault of the doctor or its installation, and no word about the driver.
    """
    return went_wrong(machine, reading) and "killed by SIG" in reading.reason
