"""PCI devices, device files and kernel modules of accelerators of any maker, without their drivers' help."""

import re
from collections.abc import Iterable

from gpudoctor.read.reader import Facts, reader
from gpudoctor.read.system import System, attempt, of_sysfs
from gpudoctor.snapshot import DeviceNode, PciDevice, Reading

DEVICES = "/sys/bus/pci/devices"

NVIDIA, AMD, INTEL, GOOGLE, AMAZON, HABANA = "0x10de", "0x1002", "0x8086", "0x1ae0", "0x1d0f", "0x1da3"

NEURON_DEVICES = frozenset({"0x7064", "0x7065", "0x7066", "0x7067", "0x7164", "0x7264", "0x7364"})
"""Inferentia and Trainium; Amazon's vendor id also stands on every NIC and disk of an EC2 machine. From
aws-neuron-driver's neuron_device.h."""

MODULES = frozenset(
    """
    nvidia nvidia_uvm nvidia_modeset nvidia_drm nvidia_peermem nv_peer_mem nvidia_fs gdrdrv nouveau nova_core nova_drm
    amdgpu radeon i915 xe habanalabs neuron gasket apex vfio_pci dxgkrnl
    """.split()  # noqa: SIM905 - as a text it can be read and changed
)

LINK_WIDTHS = frozenset({1, 2, 4, 8, 12, 16, 32})
"""What PCI Express defines; sysfs shows 0, 63 or 255 where there is no link or the device does not answer."""


def is_of_interest(vendor: str, device: str, device_class: str) -> bool:
    """GPUs, accelerators and NVSwitches; not the VGA that a hypervisor or a server's BMC emulates."""
    display_or_accelerator = device_class.startswith(("0x03", "0x12"))
    if vendor == NVIDIA:
        return display_or_accelerator or device_class.startswith("0x0680")
    if vendor == AMD:
        return display_or_accelerator
    if vendor == INTEL:
        return device_class.startswith("0x03")
    if vendor == AMAZON:
        return device in NEURON_DEVICES
    return vendor in (GOOGLE, HABANA) and not device_class.startswith(("0x01", "0x02"))  # gVNIC, Google's NVMe


@reader("pci", "accelerators.pci")
def read_pci(system: System) -> Reading[tuple[PciDevice, ...]]:
    """Accelerators on the PCI bus."""
    # Some virtual machines have no PCI bus at all.
    return of_sysfs(system, DEVICES, (), lambda: devices(system))


def devices(system: System) -> tuple[PciDevice, ...]:
    """Raises `OSError`. A device that is removed while we look is left out."""
    devices_read = []
    for bus_id in system.names(DEVICES):
        try:
            vendor, device, device_class = (
                system.text(f"{DEVICES}/{bus_id}/{name}").lower() for name in ("vendor", "device", "class")
            )
        except FileNotFoundError:
            continue
        if is_of_interest(vendor, device, device_class):
            devices_read.append(_device(system, bus_id, vendor, device, device_class))
    return tuple(devices_read)


def _device(system: System, bus_id: str, vendor: str, device: str, device_class: str) -> PciDevice:
    folder = f"{DEVICES}/{bus_id}"

    def text(name: str) -> str:  # not every device has every attribute
        return system.text_or_empty(f"{folder}/{name}")

    return PciDevice(
        bus_id=bus_id,
        vendor=vendor,
        device=device,
        device_class=device_class,
        driver=system.link_or_empty(f"{folder}/driver").rpartition("/")[2],
        numa_node=number(text("numa_node"), -1),
        link_width=link_width(text("current_link_width")),
        link_width_max=link_width(text("max_link_width")),
        link_speed=link_speed(text("current_link_speed")),
        link_speed_max=link_speed(text("max_link_speed")),
    )


def number(text: str, default: int) -> int:
    """A decimal number, or `default` for anything else."""
    return int(text) if re.fullmatch("-?[0-9]{1,9}", text) else default


def link_width(text: str) -> int | None:
    """Lanes, None where there is no link."""
    lanes = number(text, 0)
    return lanes if lanes in LINK_WIDTHS else None


def link_speed(text: str) -> str:
    """As sysfs writes it ("16.0 GT/s PCIe"), empty for "Unknown"."""
    return text if text[:1].isdigit() else ""


# --- device files -------------------------------------------------------------------------------------------------


def device_paths(system: System) -> list[str]:
    """Device files through which programs reach accelerators. Raises `OSError`."""
    paths = []
    for name in system.names("/dev"):
        if re.fullmatch(r"nvidia.*|accel.*|kfd|dxg|dri|vfio|neuron[0-9]+", name):
            paths += _leaves(system, f"/dev/{name}")
    return [path for path in paths if not path.startswith("/dev/dri/") or path.startswith("/dev/dri/renderD")]


def _leaves(system: System, path: str) -> list[str]:
    """`path`, or what lies in it (/dev/vfio/devices/vfio0) when it is a folder that may be listed."""
    try:
        inner = system.names(path)
    except NotADirectoryError:
        return [path]
    except OSError:  # a folder that only root may list, or gone
        return []
    return [leaf for name in inner for leaf in _leaves(system, f"{path}/{name}")]


def names_by_id(text: str) -> dict[int, str]:
    """/etc/passwd or /etc/group as id -> name; the files and not the name services, which can hang."""
    names: dict[int, str] = {}
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and re.fullmatch("[0-9]{1,10}", fields[2]):
            names.setdefault(int(fields[2]), fields[0])
    return names


def device_nodes(system: System, paths: Iterable[str]) -> tuple[DeviceNode, ...]:
    """Files with their rights, and their owners by name."""
    users, groups = (names_by_id(system.text_or_empty(path)) for path in ("/etc/passwd", "/etc/group"))
    nodes = []
    for path in paths:
        try:
            status = system.status(path)
        except OSError:  # removed just now, or a dangling link
            continue
        nodes.append(
            DeviceNode(
                path=path,
                readable=status.readable,
                writable=status.writable,
                mode=status.mode,
                owner=users.get(status.user_id, str(status.user_id)),
                group=groups.get(status.group_id, str(status.group_id)),
            )
        )
    return tuple(nodes)


@reader("device nodes", "accelerators.device_nodes")
def read_device_nodes(system: System) -> Reading[tuple[DeviceNode, ...]]:
    return attempt("/dev", lambda: device_nodes(system, device_paths(system)), must_exist=True)


# --- kernel modules -----------------------------------------------------------------------------------------------


def modules(system: System) -> tuple[str, ...]:
    """Loaded ones from /proc/modules, built-in ones from /sys/module. Raises `OSError` when neither can be read."""
    loaded: set[str] = set()
    try:
        loaded.update(line.split(" ")[0] for line in system.text("/proc/modules").splitlines())
    except FileNotFoundError:
        loaded.update(system.names("/sys/module"))  # a kernel without loadable modules
    else:
        try:
            loaded.update(system.names("/sys/module"))
        except OSError:
            pass  # the built-in ones stay unknown, which are none of NVIDIA's
    return tuple(sorted(loaded & MODULES))


@reader("kernel modules", "accelerators.kernel_modules")
def read_modules(system: System) -> Facts:
    source = "/proc/modules, /sys/module"
    return {"accelerators.kernel_modules": attempt(source, lambda: modules(system), must_exist=True)}
