"""Network interfaces in getifaddrs' order, with their addresses and what /sys/class/net says. The door to netifaces.

netifaces walks through every address of the machine for each interface it is asked about (1.4 ms each at 200
interfaces), so it is asked for the names and for IPv4; who has IPv4 at all the kernel tells in one call (SIOCGIFCONF),
and all of IPv6 stands in /proc/net/if_inet6.
"""

import ipaddress
import re
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from gpudoctor.lazy import lazy_re
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import Address, Interface, Reading, missing

FOLDER = "/sys/class/net"
IPV6_FILE = "/proc/net/if_inet6"
SOURCE = f"getifaddrs, {FOLDER}"
MAXIMUM_INTERFACES = 4096
"""More than any machine that trains; a host of containers has some hundred."""

IFF_UP = 0x1
SIOCGIFCONF = 0x8912  # <linux/sockios.h>
IFREQ_BYTES = 40 if struct.calcsize("P") == 8 else 32
IFNAMSIZ = 16
# <linux/if_arp.h>, in /sys/class/net/*/type
ARPHRD_ETHER, ARPHRD_INFINIBAND, ARPHRD_LOOPBACK = 1, 32, 772
TUNNEL_TYPES = frozenset({768, 769, 776, 778, 823})  # ipip, ip6tnl, sit, gre, ip6gre
TUNNEL_KINDS = frozenset(
    {"vxlan", "geneve", "wireguard", "gre", "gretap", "ip6gre", "ip6gretap", "ipip", "sit", "ip6tnl"}
)
"""DEVTYPE of /sys/class/net/*/uevent."""
IPV6_SCOPES = {0x10: "host", 0x20: "link"}
PCI_ADDRESS = lazy_re(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
LARGEST_SPEED_MBPS = 100_000_000

Table = Mapping[str, tuple[Address, ...]]
"""Interfaces in getifaddrs' order, with their IPv4 addresses."""


@reader("interfaces", "network.interfaces")
def read_interfaces(system: System, table: Callable[[], Table] | None = None) -> Reading[tuple[Interface, ...]]:
    """Every interface. `table` answers for getifaddrs, which knows this machine only and no folder like one."""
    if table is None and system.root != Path("/"):
        return missing("getifaddrs", "only this machine's own interfaces can be asked for")
    return attempt(SOURCE, lambda: interfaces(system, (table or ipv4_table)()))


def interfaces(system: System, table: Table) -> tuple[Interface, ...]:
    """Raises `ValueError` when there are absurdly many."""
    if len(table) > MAXIMUM_INTERFACES:
        raise ValueError(f"{len(table)} interfaces")
    ipv6 = ipv6_table(system)
    return tuple(_interface(system, name, ipv4 + ipv6.get(name, ())) for name, ipv4 in table.items())


# --- addresses ----------------------------------------------------------------------------------------------------


def ipv4_table() -> Table:
    """This machine's interfaces with their IPv4 addresses, by netifaces. Raises `OSError`, `ValueError`."""
    import netifaces

    try:
        names = list(dict.fromkeys(netifaces.interfaces()))
    except SystemError:  # as netifaces says that it could not decode one
        raise ValueError("the name of an interface is no text") from None
    with_ipv4 = _names_with_ipv4()
    by_interface: dict[str, tuple[Address, ...]] = dict.fromkeys(names, ())
    for name in names:
        if name in with_ipv4:
            with suppress(ValueError):  # it went away since
                entries = netifaces.ifaddresses(name).get(netifaces.AF_INET, [])
                by_interface[name] = tuple(filter(None, (_ipv4(entry) for entry in entries)))
    return by_interface


def _names_with_ipv4() -> frozenset[str]:
    """Names as getifaddrs has them (with the label: "eth0:1"). Raises `OSError`."""
    import array
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        buffer = array.array("B", bytes(IFREQ_BYTES * MAXIMUM_INTERFACES))
        request = struct.pack("iP", len(buffer), buffer.buffer_info()[0])
        used = struct.unpack("iP", fcntl.ioctl(asking, SIOCGIFCONF, request))[0]
    raw = buffer.tobytes()[: max(0, used)]
    starts = range(0, len(raw) - IFREQ_BYTES + 1, IFREQ_BYTES)
    return frozenset(raw[start : start + IFNAMSIZ].split(b"\0")[0].decode("utf-8", "replace") for start in starts)


def _ipv4(entry: Mapping[str, str]) -> Address | None:
    try:
        own = ipaddress.IPv4Interface(f"{entry['addr']}/{entry.get('netmask') or 32}")
    except (KeyError, ValueError):
        return None
    scope = "host" if own.ip.is_loopback else "link" if own.ip.is_link_local else "global"
    return Address("inet", str(own.ip), own.network.prefixlen, scope)


def ipv6_table(system: System) -> dict[str, tuple[Address, ...]]:
    """/proc/net/if_inet6: address, index, prefix length, scope, flags and name; {} without IPv6."""
    by_interface: dict[str, tuple[Address, ...]] = {}
    for line in system.text_or_empty(IPV6_FILE).splitlines():
        fields = line.split()
        try:
            digits, _, length, scope, _, name = fields
            address = str(ipaddress.IPv6Address(bytes.fromhex(digits)))
            entry = Address("inet6", address, int(length, 16), IPV6_SCOPES.get(int(scope, 16), "global"))
        except ValueError:
            continue
        if entry.prefix_length <= 128:
            by_interface[name] = (*by_interface.get(name, ()), entry)
    # The file is in no order; getifaddrs gives global addresses first (ipv6_link_dev_addr in net/ipv6/addrconf.c).
    order = ("global", "link", "host").index
    return {name: tuple(sorted(each, key=lambda address: order(address.scope))) for name, each in by_interface.items()}


# --- /sys/class/net -----------------------------------------------------------------------------------------------


class _Folder:
    """An interface's folder; what cannot be read there is "" or None."""

    def __init__(self, system: System, name: str) -> None:
        self.system = system
        self.path = f"{FOLDER}/{name}"
        self.entries = frozenset(system.names_or_none(self.path) if "/" not in name else ())
        self.event = dict(re.findall(r"^(\w+)=(.*)$", self.text("uevent"), re.MULTILINE))
        """DEVTYPE, where the driver gives one, and IFINDEX."""
        index = self.event.get("IFINDEX", "")
        self.index = int(index) if re.fullmatch("[0-9]{1,9}", index) else self.number("ifindex")

    def text(self, name: str) -> str:
        if name.partition("/")[0] not in self.entries:
            return ""
        try:
            return self.system.raw(f"{self.path}/{name}", 4096).decode("utf-8", "replace").strip()
        except OSError:  # the speed of a port without a link is EINVAL
            return ""

    def number(self, name: str) -> int | None:
        text = self.text(name)
        return int(text) if re.fullmatch("-?[0-9]{1,9}", text) else None

    def link(self, name: str) -> str:
        """The last part of a link's target."""
        return self.system.link_or_empty(f"{self.path}/{name}".rstrip("/")).rpartition("/")[2]


def _interface(system: System, name: str, addresses: tuple[Address, ...]) -> Interface:
    folder = _Folder(system, name.partition(":")[0])  # "eth0:1" is a label on eth0's address
    has_device = "device" in folder.entries
    operstate = folder.text("operstate")[:32]
    flags = folder.text("flags")
    is_up = bool(int(flags, 16) & IFF_UP) if re.fullmatch("0x[0-9a-f]{1,8}", flags) else False
    kind = _kind(system, folder, name.partition(":")[0])
    speed = folder.number("speed") if has_device or kind in ("bond", "vlan") else None
    numa = folder.number("device/numa_node") if has_device else None
    return Interface(
        name=name,
        index=folder.index or 0,
        kind=kind,
        addresses=addresses,
        is_up=is_up,
        # The file holds dev->flags, without IFF_RUNNING; dev_get_flags() of the kernel makes that of the two.
        is_running=is_up and operstate in ("up", "unknown"),
        operstate=operstate,
        speed_mbps=speed if speed and 0 < speed <= LARGEST_SPEED_MBPS else None,
        mtu=folder.number("mtu"),
        mac=folder.text("address")[:64],
        master=folder.link("master") if "master" in folder.entries else "",
        members=_members(system, folder),
        driver=folder.link("device/driver") if has_device else "",
        pci_bus_id=_pci_address(system, folder) if has_device else "",
        numa_node=numa if numa is not None and numa >= 0 else None,
    )


def _kind(system: System, folder: _Folder, name: str) -> str:
    """What sort of interface it is, by type, DEVTYPE and what lies in its folder."""
    link_type = folder.number("type")
    devtype = folder.event.get("DEVTYPE", "")
    if link_type == ARPHRD_LOOPBACK:
        return "loopback"
    if link_type == ARPHRD_INFINIBAND:
        return "ipoib"
    if "tun_flags" in folder.entries:
        return "tun"
    if link_type in TUNNEL_TYPES or devtype in TUNNEL_KINDS:
        return "tunnel"
    if "bonding" in folder.entries or devtype == "bond":
        return "bond"
    if "bridge" in folder.entries or devtype == "bridge":
        # docker0, and br-0123456789ab for the networks that a user adds
        return "docker" if re.fullmatch("docker[0-9]+|br-[0-9a-f]{12}", name) else "bridge"
    if devtype == "vlan":
        return "vlan"
    if "wireless" in folder.entries or "phy80211" in folder.entries or devtype == "wlan":
        return "wireless"
    if "device" in folder.entries:
        return "virtual-function" if system.exists(f"{folder.path}/device/physfn") else "ethernet"
    if name.startswith(("dummy", "kube-ipvs")):
        return "dummy"
    peer = folder.number("iflink")
    is_pair = link_type == ARPHRD_ETHER and not devtype and None not in (peer, folder.index) and peer != folder.index
    # The kernel marks a veth with nothing; its link leads to the other end.
    return "veth" if is_pair or name.startswith("veth") else "other"


def _members(system: System, folder: _Folder) -> tuple[str, ...]:
    if "bonding" in folder.entries:
        return tuple(folder.text("bonding/slaves").split())[:64]
    return tuple(system.names_or_none(f"{folder.path}/brif")) if "brif" in folder.entries else ()


def _pci_address(system: System, folder: _Folder) -> str:
    """The PCI function that it sits on; the link of a virtio NIC names it a step above the device."""
    try:
        places = system.link(folder.path), system.link(f"{folder.path}/device")
    except OSError:
        return ""
    addresses = [address for place in places for address in PCI_ADDRESS.findall(place)[-1:]]
    return str(addresses[0]) if addresses else ""
