"""Addresses that a job uses: what they lead to on each node, and whose they are."""

import functools
import ipaddress
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpudoctor.knowledge import job
from gpudoctor.snapshot.evidence import ConnectionAttempt, NodeEvidence

__all__ = ["Owner", "is_loopback", "is_number", "is_private", "numbers", "outcome", "owners", "plain", "routable"]
VIRTUAL = ("docker", "veth", "virbr", "br-", "cni", "podman", "flannel", "cali", "vxlan", "lxc", "lxd", "kube", "tun")
"""Beginnings of names of interfaces that containers, virtual machines and tunnels make; each host has its own."""


is_loopback = functools.lru_cache(maxsize=1 << 16)(job.is_loopback)


class Owner(NamedTuple):
    """An interface that has an address."""

    node: NodeEvidence
    interface: str

    @property
    def is_virtual(self) -> bool:
        return self.interface.startswith(VIRTUAL)


@functools.lru_cache(maxsize=1 << 16)
def plain(address: str) -> str:
    """Without a zone, and IPv4 where it is one in IPv6's clothes."""
    text = address.strip().partition("%")[0]
    try:
        number = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped is not None:
        number = number.ipv4_mapped
    return str(number)


def is_number(address: str) -> bool:
    try:
        ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return True


def numbers(node: NodeEvidence, address: str) -> tuple[str, ...]:
    """What an address or name leads to on this node; () where it does not resolve or was not looked up."""
    if not address:
        return ()
    if is_number(address):
        return (plain(address),)
    return tuple(plain(resolved) for resolved in node.resolved.get(address, ()))


def is_unresolvable(node: NodeEvidence, address: str) -> bool:
    """It was looked up, and leads to nothing."""
    return bool(address) and not is_number(address) and node.resolved.get(address, None) == ()


def owners(nodes: Sequence[NodeEvidence], address: str) -> Iterator[Owner]:
    """The nodes that have this number as their own; loopback is everybody's and nobody's."""
    wanted = plain(address)
    if not is_loopback(wanted):
        yield from _index(nodes).get(wanted, ())


_LAST: list[tuple[Sequence[NodeEvidence], dict[str, list[Owner]]]] = []
"""The nodes that were asked for last, and whose each address is: with 128 nodes, rules ask a hundred thousand times."""


def _index(nodes: Sequence[NodeEvidence]) -> dict[str, list[Owner]]:
    for known, index in _LAST:
        if known is nodes:
            return index
    made: dict[str, list[Owner]] = {}
    for node in nodes:
        for interface in node.interfaces:
            for address in dict.fromkeys(plain(address.partition("/")[0]) for address in interface.addresses):
                made.setdefault(address, []).append(Owner(node, interface.name))
    _LAST[:] = [(nodes, made)]
    return made


def outcome(node: NodeEvidence, address: str, port: int) -> ConnectionAttempt | None:
    """What became of the doctor's own connection from this node to the master."""
    wanted = {address, plain(address), *numbers(node, address)}
    tries = [
        attempt
        for attempt in node.reached
        if attempt.port == port and ({attempt.address, plain(attempt.address)} & wanted)
    ]
    return tries[0] if tries else None


def is_private(address: str) -> bool:
    """Of a network that is not the Internet's: ranks talk there, and programs that report to a service do not."""
    try:
        return ipaddress.ip_address(plain(address)).is_private
    except ValueError:
        return False


def routable(node: NodeEvidence) -> str:
    """An address of this node that others may reach: the first of a real interface; "" where none is known."""
    for kind in (4, 6):
        for interface in node.interfaces:
            if not interface.up or interface.name == "lo" or interface.name.startswith(VIRTUAL):
                continue
            for address in interface.addresses:
                text = plain(address.partition("/")[0])
                if is_number(text) and not is_loopback(text):
                    number = ipaddress.ip_address(text)
                    if number.version == kind and not number.is_link_local:
                        return text
    return ""


def interface_of(node: NodeEvidence, address: str) -> str:
    """The name of the node's interface with this address; "" where it has none."""
    wanted = plain(address)
    for interface in node.interfaces:
        if any(plain(own.partition("/")[0]) == wanted for own in interface.addresses):
            return interface.name
    return ""
