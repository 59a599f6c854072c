"""Which address gloo listens on: what its own hostname resolves to, or what GLOO_SOCKET_IFNAME names.

Source: ProcessGroupGloo.cpp of torch and transport/tcp/device.cc of gloo; tried with torch 2.13. The variable's names
are exact and split at commas, and one that is not there is an error; a value of one character counts as unset. Without
it, the first of the hostname's addresses that can be bound is taken, else 127.0.0.1 with a warning.
"""

from typing import NamedTuple

from gpudoctor.snapshot import Interface, Snapshot

IFNAME = "GLOO_SOCKET_IFNAME"
FALLBACK = "127.0.0.1"


class GlooChoice(NamedTuple):
    """Where gloo listens."""

    interface: str
    """"" when no interface is found, or none has the address."""
    address: str
    """"" when gloo fails."""
    rule: str
    """Why, as a phrase."""


def listed(value: str) -> tuple[str, ...]:
    """The names in GLOO_SOCKET_IFNAME; () where torch takes it as unset. A comma at the end adds no name."""
    return tuple(value.removesuffix(",").split(",")) if len(value) > 1 else ()


def gloo_choice(machine: Snapshot) -> GlooChoice:
    """Where gloo listens for its first connection. Raises `NotRead`."""
    interfaces = machine.network.interfaces.value
    names = listed(machine.environment.value.get(IFNAME, ""))
    if names:
        address = first_address(interfaces, names[0])
        rule = f"{IFNAME} is {','.join(names)}"
        return GlooChoice(names[0], address, rule) if address else GlooChoice("", "", rule)
    hostname = machine.host.hostname.value
    for address in machine.host.hostname_addresses.value:
        if owner := owner_of(interfaces, address):
            return GlooChoice(owner, address, f"its own hostname {hostname} resolves to {address}")
    rule = f"its own hostname {hostname} resolves to no address of this machine"
    return GlooChoice(owner_of(interfaces, FALLBACK), FALLBACK, rule)


def first_address(interfaces: tuple[Interface, ...], name: str) -> str:
    """An interface's first address, IPv4 before IPv6 as getifaddrs gives them; "" without one."""
    addresses = [address for interface in interfaces if interface.name == name for address in interface.addresses]
    return next((address.address for kind in ("inet", "inet6") for address in addresses if address.family == kind), "")


def owner_of(interfaces: tuple[Interface, ...], address: str) -> str:
    """The interface that has this address; "" when none has. All of 127.0.0.0/8 is lo's."""
    for interface in interfaces:
        for own in interface.addresses:
            if own.address.partition("%")[0] == address.partition("%")[0]:
                return interface.name
    if address.startswith("127."):
        return next((interface.name for interface in interfaces if interface.kind == "loopback"), "")
    return ""
