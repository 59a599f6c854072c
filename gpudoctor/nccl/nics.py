"""The NICs of a node that a test can be bound to one by one, and the settings that do so."""

import ipaddress

from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.snapshot import Interface, NotRead, Snapshot


def nic_settings(guilty: Snapshot, partner: Snapshot, backend: str) -> dict[str, dict[str, str]]:
    """NIC -> the settings under which only it carries the data, for NICs that both nodes have.

    NCCL over RDMA: each HCA port it takes on both (the same rail has the same name). Otherwise each interface whose
    subnet both are in. Empty where less than two are known, or nothing could be read.
    """
    try:
        hcas = _hcas(guilty, partner) if backend == "nccl" else []
        if hcas:
            settings = {name: {"NCCL_IB_HCA": f"={name}"} for name in hcas}
        elif backend == "nccl":
            settings = {name: {"NCCL_SOCKET_IFNAME": f"={name}"} for name in _interfaces(guilty, partner)}
        else:
            settings = {name: {"GLOO_SOCKET_IFNAME": name} for name in _interfaces(guilty, partner)}
    except NotRead:
        return {}
    return settings if len(settings) > 1 else {}


def _hcas(guilty: Snapshot, partner: Snapshot) -> list[str]:
    theirs = rdma_choice(partner).taken
    return [f"{device}:{port}" for device, port in rdma_choice(guilty).taken if (device, port) in theirs]


def _interfaces(guilty: Snapshot, partner: Snapshot) -> list[str]:
    others = {interface.name: interface for interface in partner.network.interfaces.value}
    return [
        interface.name
        for interface in guilty.network.interfaces.value
        if interface.name in others and _share_subnet(interface, others[interface.name])
    ]


def _share_subnet(one: Interface, other: Interface) -> bool:
    """Not where both have the same address: docker0 and virbr0 do on all machines, and lead to none of the others."""
    same = {address.address for address in one.addresses} & {address.address for address in other.addresses}
    return not same and not _subnets(one).isdisjoint(_subnets(other))


def _subnets(interface: Interface) -> set[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Of its global addresses; loopback and link-local ones lead nowhere."""
    if not interface.is_up:
        return set()
    return {
        ipaddress.ip_network(f"{address.address.partition('%')[0]}/{address.prefix_length}", strict=False)
        for address in interface.addresses
        if address.scope == "global"
    }
