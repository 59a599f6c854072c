"""Which interfaces NCCL takes for its TCP connections, by its own rules.

Source: ncclFindInterfaces and findInterfaces in src/misc/socket.cc of NCCL 2.18 to 2.27.7 and of 2.28.3 to 2.29.7,
os/linux.cc of 2.30.7. Releases from 2.28.3 on look at running interfaces only, and leave virbr* for last. Bootstrap
takes the first address, NET/Socket all of them as devices (at most 16), NET/IB the first for its handshake.

With NCCL_COMM_ID bootstrap asks neither for names nor for links: it takes the first address in the subnet of that one,
or fails (bootstrapNetInit, the same from 2.18 to 2.30.7). 2.29.2 to 2.29.7 have the test of IPv4 subnets the wrong way
round (matchSubnet in os/linux.cc; right in 2.28.9 and 2.30.3).
"""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpudoctor.knowledge.nccl.settings import effective, nccl_version, set_names, set_text, version_if_known
from gpudoctor.knowledge.network.addresses import IpAddress, parsed
from gpudoctor.snapshot import Address, Interface, NotRead, Snapshot

MOST = 16
"""MAX_IFS of NCCL's socket.h: so many interfaces, and so many entries of a list, are looked at."""
RUNNING_ONLY_SINCE = (2, 28, 3)
INVERTED_SINCE, INVERTED_BEFORE = (2, 29, 2), (2, 30, 3)
"""Releases to which an address is in a subnet of IPv4 when it is not."""
COMMUNICATOR = "NCCL_COMM_ID"
IFNAME = "NCCL_SOCKET_IFNAME"
FAMILIES = {"AF_INET": "inet", "AF_INET6": "inet6"}

Found = tuple[tuple[str, str], ...]
"""Interfaces with the address that is used of each."""


class InterfaceChoice(NamedTuple):
    """The interfaces that NCCL takes."""

    names: tuple[str, ...]
    """In NCCL's order. () when none fits, and NCCL fails."""
    addresses: tuple[str, ...]
    """The address that NCCL uses of each."""
    rule: str
    """Why these, as a phrase: "NCCL_SOCKET_IFNAME is eth0", "not docker*, lo* or virbr*"."""
    version: tuple[int, int, int] | None
    """The NCCL that it holds for; None when it is unknown and every release takes the same."""
    by_communicator: tuple[str, str] = ("", "")
    """The interface, with its address, that NCCL_COMM_ID makes bootstrap take; empty where it is not set."""
    bootstrap_rule: str = ""
    """Why that one, as a phrase; "" where `rule` says it."""

    @property
    def is_blocked(self) -> bool:
        """NCCL_COMM_ID makes NCCL fail, whatever interfaces there are."""
        return bool(self.bootstrap_rule and not self.names)

    @property
    def first(self) -> str:
        """The interface that carries bootstrap; "" when there is none."""
        return self.by_communicator[0] or (self.names[0] if self.names else "")

    @property
    def first_address(self) -> str:
        return self.by_communicator[1] or (self.addresses[0] if self.addresses else "")

    @property
    def first_rule(self) -> str:
        return self.bootstrap_rule or self.rule


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


def host_of(communicator: str) -> str:
    """The host that NCCL_COMM_ID names, as ncclSocketGetAddrFromString takes it apart; its port is left out."""
    if communicator.startswith("["):
        return communicator[1:].partition("]")[0]
    return communicator.partition(",")[0].partition(":")[0]


def as_address(host: str) -> IpAddress | None:
    """The address that is written; None for a name."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def nccl_choice(machine: Snapshot) -> InterfaceChoice:
    """What the NCCL of this machine takes. Raises `NotRead`.

    Where its version is not known, the answer holds if old and new releases agree.
    """
    interfaces = machine.network.interfaces.value
    settings = effective(machine)
    listed, family = set_names(settings, IFNAME), set_text(settings, "NCCL_SOCKET_FAMILY")
    communicator = settings[COMMUNICATOR].value if COMMUNICATOR in settings else None
    resolved: tuple[str, ...] = ()
    if communicator and as_address(host_of(communicator)) is None:
        reading = machine.network.communicator_addresses
        resolved = tuple(str(parsed(address, reading)) for address in reading.value[:1])

    def by(version: tuple[int, int, int]) -> InterfaceChoice:
        return choose(interfaces, version, listed, family, communicator, resolved)

    version = version_if_known(machine)
    if version is not None:
        return by(version)
    new = by(INVERTED_BEFORE)
    for other in map(by, ((2, 27, 7), INVERTED_SINCE)):
        if other._replace(version=new.version) != new:
            if (other.names, other.addresses, other.first) == (new.names, new.addresses, new.first):
                continue  # the same, and a rule with another name
            nccl_version(machine)  # raises: the reason why it is not known
            raise NotRead(machine.training.torch)
    return new._replace(version=None)


def choose(
    interfaces: Sequence[Interface],
    version: tuple[int, int, int],
    listed: str = "",
    family: str = "",
    communicator: str | None = None,
    resolved: Sequence[str] = (),
) -> InterfaceChoice:
    """The choice among `interfaces`: `listed` is NCCL_SOCKET_IFNAME, "" is unset; `communicator` NCCL_COMM_ID, None is
    unset; `resolved` are the addresses of the host that it names."""
    if communicator is None:
        return _without_communicator(interfaces, version, listed, family)
    host = host_of(communicator)
    wanted = as_address(host) or (as_address(resolved[0]) if resolved else None)
    if not is_set(communicator) or wanted is None:
        return _blocked(f"{COMMUNICATOR} is {communicator!r}, which gives no address", version)
    inverted = INVERTED_SINCE <= version < INVERTED_BEFORE and wanted.version == 4
    in_subnet = _in_subnet(interfaces, wanted, inverted)
    if not in_subnet:
        return _blocked(f"no interface is in the subnet of {COMMUNICATOR} {communicator}", version)
    where = "not in the subnet, a fault of this NCCL," if inverted else "in the subnet"
    rule = f"it is {where} of {COMMUNICATOR} {communicator}"
    choice = _without_communicator(interfaces, version, listed, family, (in_subnet, rule))
    return choice._replace(by_communicator=in_subnet[0], bootstrap_rule=rule) if choice.names else choice


def _blocked(rule: str, version: tuple[int, int, int]) -> InterfaceChoice:
    return InterfaceChoice((), (), rule, version, bootstrap_rule=rule)


def _without_communicator(
    interfaces: Sequence[Interface],
    version: tuple[int, int, int],
    listed: str,
    family: str,
    hint: tuple[Found, str] = ((), ""),
) -> InterfaceChoice:
    """What ncclFindInterfaces takes; `hint` is what is in NCCL_COMM_ID's subnet, and why."""
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
    if matched := matching("ib"):
        return chosen(matched, "names that begin with ib come first")
    if hint[0]:
        return chosen(*hint)
    new = version >= RUNNING_ONLY_SINCE
    usual, last = ("^docker,lo,virbr", ("docker", "lo", "virbr")) if new else ("^docker,lo", ("docker", "lo"))
    if matched := matching(usual):
        return chosen(
            matched, "every interface but docker*, lo* and virbr*" if new else "every one but docker* and lo*"
        )
    for prefix in last:
        if matched := matching(prefix):
            return chosen(matched, f"there is no other than {prefix}*")
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


def _in_subnet(interfaces: Sequence[Interface], wanted: IpAddress, inverted: bool) -> Found:
    """The first address whose network holds `wanted`, of interfaces without a link and of loopback ones too."""
    for kind in ("inet", "inet6"):
        for interface in interfaces:
            for address in interface.addresses:
                if address.family == kind and (holds := _holds(address, wanted)) is not None and holds != inverted:
                    return ((interface.name, address.address),)
    return ()


def _holds(address: Address, wanted: IpAddress) -> bool | None:
    """Whether `wanted` is in this address's network; None where they are of two families."""
    try:
        own = ipaddress.ip_interface(f"{address.address.partition('%')[0]}/{address.prefix_length}")
    except ValueError:
        return None
    return wanted in own.network if wanted.version == own.version else None
