"""IOMMU groups, and the PCI bridges whose access control (ACS) sends peer-to-peer traffic through the CPU."""

from gpudoctor.read.pci import DEVICES
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, of_sysfs
from gpudoctor.snapshot import AcsBridge, Reading

GROUPS = "/sys/kernel/iommu_groups"

# <linux/pci_regs.h>
CONFIG_HEADER_BYTES = 64
CONFIG_BYTES = 256
CAPABILITIES_POINTER = 0x34
CAPABILITY_PCI_EXPRESS = 0x10
EXTENDED_CAPABILITY_ACS = 0x000D
ACS_CONTROL = 0x06
ACS_SOURCE_VALIDATION, ACS_REQUEST_REDIRECT, ACS_COMPLETION_REDIRECT = 0x01, 0x04, 0x08
REDIRECTS = ACS_SOURCE_VALIDATION | ACS_REQUEST_REDIRECT | ACS_COMPLETION_REDIRECT
"""Either of these bends a transfer between two GPUs under one switch up to the root complex (NCCL's user guide,
"PCI Access Control Services", asks for SrcValid to be off)."""


@reader("iommu groups", "host.iommu_group_types")
def read_iommu_groups(system: System) -> Reading[dict[str, int]]:
    """Domain types of the IOMMU groups, counted."""

    def types() -> dict[str, int]:
        counts: dict[str, int] = {}
        for group in system.names(GROUPS):
            try:
                kind = system.text(f"{GROUPS}/{group}/type")
            except FileNotFoundError:  # kernels before 5.11
                kind = "unknown"
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    # A kernel without IOMMU support has no such folder.
    return of_sysfs(system, GROUPS, {}, types)


def is_pci_express(config: bytes) -> bool:
    """Whether the first 256 bytes of a configuration space list the PCI Express capability."""
    place = config[CAPABILITIES_POINTER] & 0xFC if len(config) > CAPABILITIES_POINTER else 0
    for _ in range(48):  # no more fit behind the header
        if not CONFIG_HEADER_BYTES <= place < len(config) - 1:
            return False
        if config[place] == CAPABILITY_PCI_EXPRESS:
            return True
        place = config[place + 1] & 0xFC
    return False


def acs_control(config: bytes) -> int:
    """The ACS control register; 0 for a bridge that has no ACS. Raises `PermissionError`, `ValueError`."""
    if len(config) <= CONFIG_HEADER_BYTES:
        raise PermissionError(
            "the kernel shows the rest of PCI configuration space to root only; run gpudoctor as root"
        )
    if len(config) <= CONFIG_BYTES:
        if is_pci_express(config):
            raise ValueError("the extended PCI configuration space cannot be reached on this machine")
        return 0  # a conventional PCI bridge, which has no ACS
    place, seen = CONFIG_BYTES, set[int]()
    while CONFIG_BYTES <= place <= len(config) - 8 and place not in seen:
        seen.add(place)
        header = int.from_bytes(config[place : place + 4], "little")
        if header in (0, 0xFFFFFFFF):
            break
        if header & 0xFFFF == EXTENDED_CAPABILITY_ACS:
            return int.from_bytes(config[place + ACS_CONTROL : place + ACS_CONTROL + 2], "little")
        place = (header >> 20) & 0xFFC
    return 0


def bridges(system: System) -> tuple[AcsBridge, ...]:
    """Every PCI-to-PCI bridge. Raises `OSError`, `ValueError`."""
    bridges_seen = []
    for bus_id in system.names(DEVICES):
        folder = f"{DEVICES}/{bus_id}"
        try:
            if not system.text(f"{folder}/class").lower().startswith("0x0604"):
                continue
            control = acs_control(system.raw(f"{folder}/config", 4096))
        except FileNotFoundError:
            continue  # removed just now
        bridges_seen.append(AcsBridge(bus_id, bool(control & REDIRECTS)))
    return tuple(bridges_seen)


@reader("acs", "host.acs_bridges")
def read_acs(system: System) -> Reading[tuple[AcsBridge, ...]]:
    """Bridges and their ACS."""
    return of_sysfs(system, DEVICES, (), lambda: bridges(system), source=f"{DEVICES}/*/config")
