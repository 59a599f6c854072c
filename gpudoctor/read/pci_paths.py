"""Where GPUs, NICs and NVSwitches sit in the tree of PCI bridges: from the links of /sys/bus/pci/devices."""

from gpudoctor.lazy import lazy_re
from gpudoctor.read.pci import DEVICES, is_of_interest, number
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, of_sysfs
from gpudoctor.snapshot import PciPath, Reading

_ADDRESS = lazy_re(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ROOT = lazy_re(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
NETWORK_CLASSES = ("0x02", "0x0c06")
"""Network controllers (InfiniBand HCAs too: 0x0207), and InfiniBand as a serial bus of old HCAs (PCI code table)."""
MAXIMUM_DEVICES = 2048
MOST_BRIDGES = 32


def paths(system: System) -> dict[str, PciPath]:
    """By PCI address. Raises `OSError`. A device that is removed while we look is left out."""
    by_bus_id: dict[str, PciPath] = {}
    for bus_id in system.names(DEVICES):
        if not _ADDRESS.fullmatch(bus_id) or len(by_bus_id) >= MAXIMUM_DEVICES:
            continue
        folder = f"{DEVICES}/{bus_id}"
        try:
            if not _is_wanted(system, folder):
                continue
            target = system.link(folder)
            numa_node = number(system.text(f"{folder}/numa_node"), -1)
        except FileNotFoundError:
            continue
        except OSError:  # a tree without links (gVisor), or a file that a container hides
            target, numa_node = "", -1
        by_bus_id[bus_id] = path_of(bus_id, target, numa_node)
    return by_bus_id


def _is_wanted(system: System, folder: str) -> bool:
    device_class = system.text(f"{folder}/class").lower()
    if device_class.startswith(NETWORK_CLASSES):
        return True
    if not device_class.startswith(("0x03", "0x12", "0x0680")):
        return False
    vendor, device = (system.text(f"{folder}/{name}").lower() for name in ("vendor", "device"))
    return is_of_interest(vendor, device, device_class)


def path_of(bus_id: str, target: str, numa_node: int) -> PciPath:
    """From a link: "../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0"."""
    parts = target.split("/")
    bridges = [part for part in parts if _ADDRESS.fullmatch(part) and part != bus_id]
    root = next((part for part in parts if _ROOT.fullmatch(part)), "")
    return PciPath(bus_id, tuple(reversed(bridges))[:MOST_BRIDGES], root, numa_node)


@reader("pci paths", "network.pci_paths")
def read_paths(system: System) -> Reading[dict[str, PciPath]]:
    return of_sysfs(system, DEVICES, {}, lambda: paths(system))
