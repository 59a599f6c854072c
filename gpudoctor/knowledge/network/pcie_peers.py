"""Pairs of GPUs that reach each other's memory over PCIe, for which IOMMU and ACS matter."""

from collections.abc import Sequence

from gpudoctor.knowledge.pci_address import normalised
from gpudoctor.snapshot import AcsBridge, PeerAccess, Snapshot


def pcie_peers(machine: Snapshot) -> list[PeerAccess]:
    """Pairs whose peer access works and does not run over NVLink.

    GPUs behind NVLink or NVSwitch do not need PCIe for one another, and GeForce cards without peer access lose
    nothing. Raises `NotRead`, or `NotApplicable` with fewer than two GPUs.
    """
    return [peer for peer in machine.nvidia.peers.value if peer.read == "ok" and peer.nvlink not in ("ok", "unknown")]


def is_bare_metal(machine: Snapshot) -> bool:
    """Whether IOMMU and ACS of this machine are the real ones. In a VM they are the hypervisor's to set."""
    return machine.host.virtualization.value == "none"


def redirecting_switch_ports(bridges: Sequence[AcsBridge]) -> list[str]:
    """Addresses of the ports of PCIe switches on which ACS redirects.

    Only there does it bend the way from GPU to GPU. Root ports redirect on every machine whose kernel uses an IOMMU
    (it turns ACS on itself), which costs nothing: traffic between them passes the root complex anyway. A port lies in
    a switch when its bus is the one behind another bridge, the switch's upstream port; buses are numbered in depth.
    """
    upstream = {(domain, bus + 1) for domain, bus, function in map(_parts, bridges) if function == "00.0"}
    return [bridge.bus_id for bridge in bridges if bridge.redirects and _parts(bridge)[:2] in upstream]


def _parts(bridge: AcsBridge) -> tuple[str, int, str]:
    """Domain, bus and device.function. Raises `ValueError` for what is no PCI address."""
    domain, bus, function = normalised(bridge.bus_id).split(":")
    return domain, int(bus, 16), function
