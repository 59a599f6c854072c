"""Which interfaces NCCL takes for its TCP connections, by its own rules.

Source: ncclFindInterfaces and findInterfaces in src/misc/socket.cc of NCCL 2.18 to 2.27.7 and of 2.28.3 to 2.29.7,
os/linux.cc of 2.30.7. Releases from 2.28.3 on look at running interfaces only, and leave virbr* for last. Bootstrap
takes the first address, NET/Socket all of them as devices (at most 16), NET/IB the first for its handshake.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpudoctor.knowledge.nccl.settings import effective, nccl_version, set_text, version_if_known
from gpudoctor.snapshot import Address, Interface, NotRead, Snapshot

MOST = 16
"""MAX_IFS of NCCL's socket.h: so many interfaces, and so many entries of a list, are looked at."""
RUNNING_ONLY_SINCE = (2, 28, 3)
IFNAME = "NCCL_SOCKET_IFNAME"
FAMILIES = {"AF_INET": "inet", "AF_INET6": "inet6"}

Found = tuple[tuple[str, str], ...]
"""Interfaces with the address that is used of each."""


class InterfaceChoice(NamedTuple):
    """The interfaces that NCCL takes."""

    names: tuple[str, ...]
    """In NCCL's order; the first carries bootstrap. () when none fits, and NCCL fails."""
    addresses: tuple[str, ...]
    """The address that NCCL uses of each."""
    rule: str
    """Why these, as a phrase: "NCCL_SOCKET_IFNAME is eth0", "not docker*, lo* or virbr*"."""
    version: tuple[int, int, int] | None
    """The NCCL that it holds for; None when it is unknown and every release takes the same."""

    @property
    def first(self) -> str:
        """The interface that carries bootstrap; "" when there is none."""
        return self.names[0] if self.names else ""


class Pattern(NamedTuple):
    """NCCL's list syntax: `^` excludes, then `=` is exact; otherwise an entry is a prefix."""

    excludes: bool
    exact: bool
    entries: tuple[str, ...]

    def matches_entry(self, name: str) -> bool:
        """Whether `name` is in the list, before `^` turns it round. An empty list holds every name."""
        if not self.entries:
            return True
        return any(name == entry if self.exact else name.startswith(entry) for entry in self.entries)

    def takes(self, name: str) -> bool:
        return self.matches_entry(name) is not self.excludes


def parse(text: str) -> Pattern:
    """NCCL_SOCKET_IFNAME's value. Blanks are part of a name; what follows a colon is a port and dropped."""
    excludes = text.startswith("^")
    text = text[1:] if excludes else text
    exact = text.startswith("=")
    text = text[1:] if exact else text
    names = (part.partition(":")[0] for part in text.split(","))
    return Pattern(excludes, exact, tuple(name for name in names if name)[:MOST])


def is_set(value: str) -> bool:
    """NCCL looks at a list of two characters or more; a shorter one counts as unset."""
    return len(value) > 1


def nccl_choice(machine: Snapshot) -> InterfaceChoice:
    """What the NCCL of this machine takes. Raises `NotRead`.

    Where its version is not known, the answer holds if old and new releases agree.
    """
    interfaces = machine.network.interfaces.value
    settings = effective(machine)
    listed, family = set_text(settings, IFNAME), set_text(settings, "NCCL_SOCKET_FAMILY")
    communicator = set_text(settings, "NCCL_COMM_ID")
    version = version_if_known(machine)
    if version is not None:
        return choose(interfaces, version, listed, family, communicator)
    old = choose(interfaces, (2, 27, 7), listed, family, communicator)
    new = choose(interfaces, RUNNING_ONLY_SINCE, listed, family, communicator)
    if (old.names, old.addresses) != (new.names, new.addresses):
        nccl_version(machine)  # raises: the reason why it is not known
        raise NotRead(machine.training.torch)
    return new._replace(version=None)


def choose(
    interfaces: Sequence[Interface],
    version: tuple[int, int, int],
    listed: str = "",
    family: str = "",
    communicator: str = "",
) -> InterfaceChoice:
    """The choice among `interfaces`: `listed` is NCCL_SOCKET_IFNAME, `communicator` NCCL_COMM_ID; "" is unset."""
    entries = list(usable_addresses(interfaces, version, FAMILIES.get(family, "")))

    def matching(text: str) -> Found:
        pattern = parse(text)
        found: dict[str, str] = {}
        for name, address in entries:
            if pattern.takes(name):
                found.setdefault(name, address)
        return tuple(found.items())[:MOST]

    def chosen(found: Found, rule: str) -> InterfaceChoice:
        return InterfaceChoice(tuple(n for n, _ in found), tuple(a for _, a in found), rule, version)

    if is_set(listed):
        return chosen(matching(listed), f"{IFNAME} is {listed}")
    if found := matching("ib"):
        return chosen(found, "names that begin with ib come first")
    if is_set(communicator) and (found := _in_subnet(interfaces, communicator)):
        return chosen(found, f"it is in the subnet of NCCL_COMM_ID {communicator}")
    new = version >= RUNNING_ONLY_SINCE
    usual, last = ("^docker,lo,virbr", ("docker", "lo", "virbr")) if new else ("^docker,lo", ("docker", "lo"))
    if found := matching(usual):
        return chosen(found, "every interface but docker*, lo* and virbr*" if new else "every one but docker* and lo*")
    for prefix in last:
        if found := matching(prefix):
            return chosen(found, f"there is no other than {prefix}*")
    return chosen((), "no interface has an address that NCCL uses")


def usable_addresses(
    interfaces: Sequence[Interface], version: tuple[int, int, int], family: str = ""
) -> Iterator[tuple[str, str]]:
    """(interface, address) as NCCL walks through them: all of IPv4, then all of IPv6, as getifaddrs gives them."""
    for kind in ("inet", "inet6"):
        for interface in interfaces:
            if version >= RUNNING_ONLY_SINCE and not interface.is_running:
                continue
            for address in interface.addresses:
                if address.family == kind and family in ("", kind) and address.address.partition("%")[0] != "::1":
                    yield interface.name, address.address


def _in_subnet(interfaces: Sequence[Interface], communicator: str) -> Found:
    """The first interface whose network holds NCCL_COMM_ID's address; () for a name, which nobody looked up."""
    text = communicator[1:].partition("]")[0] if communicator.startswith("[") else communicator.partition(":")[0]
    try:
        wanted = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ()
    for kind in ("inet", "inet6"):
        for interface in interfaces:
            for address in interface.addresses:
                if address.family == kind and _holds(address, wanted):
                    return ((interface.name, address.address),)
    return ()


def _holds(address: Address, wanted: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        own = ipaddress.ip_interface(f"{address.address.partition('%')[0]}/{address.prefix_length}")
    except ValueError:
        return False
    return wanted.version == own.version and wanted in own.network
