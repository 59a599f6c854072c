"""IOMMU groups, and the PCI bridges whose access control (ACS) sends peer-to-peer traffic through the CPU."""

from collections.abc import Mapping
from typing import Any

from gpudoctor.read.local import Reader
from gpudoctor.read.pci import DEVICES
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import AcsBridge, Reading, missing, read

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


def read_iommu_groups(system: System) -> Mapping[str, Reading[Any]]:
    """Domain types of the IOMMU groups, counted."""
    field = "host.iommu_group_types"
    if not system.exists("/sys/kernel"):
        return {field: missing(GROUPS, "/sys is not mounted here")}
    if not system.exists(GROUPS):  # a kernel without IOMMU support
        return {field: read(GROUPS, {})}

    def types() -> dict[str, int]:
        counts: dict[str, int] = {}
        for group in system.names(GROUPS):
            try:
                kind = system.text(f"{GROUPS}/{group}/type")
            except FileNotFoundError:  # kernels before 5.11
                kind = "unknown"
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    return {field: attempt(GROUPS, types, must_exist=True)}


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
    found = []
    for bus_id in system.names(DEVICES):
        folder = f"{DEVICES}/{bus_id}"
        try:
            if not system.text(f"{folder}/class").lower().startswith("0x0604"):
                continue
            control = acs_control(system.raw(f"{folder}/config", 4096))
        except FileNotFoundError:
            continue  # removed just now
        found.append(AcsBridge(bus_id, bool(control & REDIRECTS)))
    return tuple(found)


def read_acs(system: System) -> Mapping[str, Reading[Any]]:
    """Bridges and their ACS."""
    field, source = "host.acs_bridges", f"{DEVICES}/*/config"
    if not system.exists("/sys/bus"):
        return {field: missing(source, "/sys is not mounted here")}
    if not system.exists(DEVICES):
        return {field: read(source, ())}
    return {field: attempt(source, lambda: bridges(system), must_exist=True)}


READERS: tuple[Reader, ...] = (
    Reader("iommu groups", ("host.iommu_group_types",), read_iommu_groups),
    Reader("acs", ("host.acs_bridges",), read_acs),
)
