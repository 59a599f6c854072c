"""Pairs of GPUs that reach each other's memory over PCIe, for which IOMMU and ACS matter."""

from gpudoctor.snapshot import PeerAccess, Snapshot


def pcie_peers(machine: Snapshot) -> list[PeerAccess]:
    """Pairs whose peer access works and does not run over NVLink.

    GPUs behind NVLink or NVSwitch do not need PCIe for one another, and GeForce cards without peer access lose
    nothing. Raises `NotRead`, or `NotApplicable` with fewer than two GPUs.
    """
    return [peer for peer in machine.nvidia.peers.value if peer.read == "ok" and peer.nvlink not in ("ok", "unknown")]


def is_bare_metal(machine: Snapshot) -> bool:
    """Whether IOMMU and ACS of this machine are the real ones. In a VM they are the hypervisor's to set."""
    return machine.host.virtualization.value == "none"
