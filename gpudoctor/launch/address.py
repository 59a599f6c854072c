"""MASTER_ADDR: which of the head's addresses the others are told, and why."""

import ipaddress
import re
from typing import NamedTuple

from gpudoctor.fleet.own_address import NoAddress, address_of
from gpudoctor.knowledge.job import is_loopback
from gpudoctor.knowledge.network.interface_roles import described, inside_reason, recommended
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import Interface, NotRead, Snapshot

NAME = lazy_re(r"(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")
EXAMPLES = ("a name that the other nodes resolve", "an address of the head")


class BadAddress(ValueError):
    """No address that a job could use; the message is one line for the user."""


class ChosenAddress(NamedTuple):
    """An address and why it is the one."""

    address: str
    why: str


def check_given(address: str, nodes: int) -> str:
    """--master-addr as it is to be written (an IPv6 address without brackets). Raises `BadAddress`."""
    text = address.strip()
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        number = ipaddress.ip_address(bare)
    except ValueError:
        number = None
    if number is not None and number.is_unspecified:
        raise BadAddress(f"--master-addr {address}: means every address; give the one that the other nodes reach")
    if number is None and not NAME.fullmatch(bare):
        raise BadAddress(f"--master-addr {address[:80]!r}: no host name and no IP address")
    if number is None and re.fullmatch(r"[0-9.]+", bare):
        raise BadAddress(f"--master-addr {address}: digits only, and no IP address; a resolver makes a wrong one of it")
    if nodes > 1 and is_loopback(bare):
        raise BadAddress(
            f"--master-addr {address}: on each of {nodes} nodes that is the node itself, so that each waits for the "
            f"others; give {EXAMPLES[1]} or {EXAMPLES[0]}"
        )
    return bare


def of_head(machine: Snapshot, nodes: int) -> ChosenAddress:
    """The head's address as its own snapshot tells it. Raises `BadAddress`."""
    if nodes == 1:
        return ChosenAddress("127.0.0.1", "one node: nothing needs to reach it from outside")
    try:
        address = address_of(machine.network)
        interface = recommended(machine)
    except (NoAddress, NotRead) as error:
        raise BadAddress(str(error)) from None
    assert interface is not None  # address_of has found one
    by = "by which the default route leads" if _has_default_route(machine, interface) else "which leads out"
    passed_over = _passed_over(machine)
    others = f"; not {', '.join(passed_over)}, where no other node is" if passed_over else ""
    return ChosenAddress(address, f"the address of {described(interface)}, {by}{others}")


def is_own(machine: Snapshot, address: str) -> bool | None:
    """Whether an interface of this machine has the address; None for names and where that was not read."""
    try:
        ipaddress.ip_address(address)
        interfaces = machine.network.interfaces.value
    except (ValueError, NotRead):
        return None
    return any(own.address.partition("%")[0] == address for interface in interfaces for own in interface.addresses)


def _has_default_route(machine: Snapshot, interface: Interface) -> bool:
    routes = machine.network.routes.value_or(())
    return any(route.destination in ("0.0.0.0/0", "::/0") and route.interface == interface.name for route in routes)


def _passed_over(machine: Snapshot) -> list[str]:
    """Interfaces with an address that are taken for the way out by mistake, loopback apart."""
    interfaces = machine.network.interfaces.value
    return [
        interface.name
        for interface in interfaces
        if interface.addresses and interface.kind != "loopback" and inside_reason(interface, interfaces)
    ][:3]
