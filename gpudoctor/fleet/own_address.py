"""The address by which other nodes reach this machine: of the interface that the user names, or of a likely one."""

import msgspec

from gpudoctor.active import gather, own_module, start
from gpudoctor.errors import BadInput
from gpudoctor.knowledge.network.interface_roles import find, has_address, recommended
from gpudoctor.read.machine import local_fields
from gpudoctor.snapshot import Interface, Network, NotRead, Snapshot

READ_SECONDS = 10.0


class NoAddress(BadInput):
    """This machine has none; the message is one line for the user."""


def own_address(interface: str = "") -> str:
    """An IP address of this machine, IPv4 where there is one.

    Without `interface`: that of the default route, else the first that leads to other machines (never loopback or a
    container's bridge). Raises `NoAddress`.
    """
    child = start("local", own_module("gpudoctor.read.local", str(READ_SECONDS)), timeout=READ_SECONDS)
    fields = local_fields(gather([child])["local"])
    return address_of(msgspec.convert(fields["network"], Network, str_keys=True), interface)


def address_of(network: Network, interface: str = "") -> str:
    """As `own_address`, of a network that was read. Raises `NoAddress`."""
    try:
        interfaces = network.interfaces.value
        chosen = find(interfaces, interface) if interface else recommended(Snapshot(network=network))
    except NotRead as reason:
        raise NoAddress(f"this machine's interfaces could not be read ({reason}); give --master-addr") from None
    names = ", ".join(other.name for other in interfaces if has_address(other)) or "none"
    if chosen is None and interface:
        raise NoAddress(f"--interface {interface}: this machine has none of that name; with an address: {names}")
    if chosen is None:
        raise NoAddress(f"no interface leads to other machines (with an address: {names}); give --master-addr")
    addresses = _global(chosen)
    if not addresses:
        raise NoAddress(f"{chosen.name} has no IP address that other machines could use; with one: {names}")
    return addresses[0]


def _global(interface: Interface) -> list[str]:
    """IPv4 first, for it is what torchrun and every firewall rule are used to."""
    addresses = [address.address for address in interface.addresses if address.scope == "global"]
    return sorted(addresses, key=lambda address: ":" in address)
