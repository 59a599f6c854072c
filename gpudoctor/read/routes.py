"""Routes of the main table, and the range of ports that the kernel gives to outgoing connections."""

import ipaddress
import struct
from collections.abc import Iterator

from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import Reading, Route

IPV4_FILE, IPV6_FILE = "/proc/net/route", "/proc/net/ipv6_route"
PORTS_FILE = "/proc/sys/net/ipv4/ip_local_port_range"
MOST = 1000
"""Routes that are kept; a router with a full table holds a million, and nothing here needs them."""
# <linux/route.h>, <linux/ipv6_route.h>
RTF_UP, RTF_REJECT, RTF_ANYCAST, RTF_LOCAL = 0x1, 0x200, 0x00100000, 0x80000000


@reader("routes", "network.routes")
def read_routes(system: System) -> Reading[tuple[Route, ...]]:
    """IPv4 and IPv6 routes."""
    source = f"{IPV4_FILE}, {IPV6_FILE}"

    def routes() -> tuple[Route, ...]:
        table = list(parse_ipv4(system.text(IPV4_FILE)))
        try:
            table += parse_ipv6(system.text(IPV6_FILE))
        except FileNotFoundError:  # a kernel without IPv6
            pass
        # Default routes are what is asked for most: none is lost to the limit.
        return tuple(sorted(table, key=lambda route: not route.destination.endswith("/0"))[:MOST])

    return attempt(source, routes, must_exist=True)


def parse_ipv4(text: str) -> Iterator[Route]:
    """/proc/net/route: Iface Destination Gateway Flags RefCnt Use Metric Mask ..., addresses as hex in host order."""
    for line in text.splitlines()[1:]:
        fields = line.split()
        try:
            name, destination, gateway, flags, _, _, metric, mask = fields[:8]
            if not int(flags, 16) & RTF_UP or int(flags, 16) & RTF_REJECT:
                continue
            length = int(mask, 16).bit_count()
            via = _address(gateway)
            yield Route(f"{_address(destination)}/{length}", "" if via == "0.0.0.0" else via, name, int(metric))
        except (ValueError, struct.error):
            continue


def _address(digits: str) -> str:
    return str(ipaddress.IPv4Address(struct.pack("=I", int(digits, 16))))


def parse_ipv6(text: str) -> Iterator[Route]:
    """/proc/net/ipv6_route: destination, length, source, length, next hop, metric, references, use, flags, name."""
    for line in text.splitlines():
        fields = line.split()
        try:
            digits, length, _, _, gateway, metric, _, _, flags, name = fields
            target = ipaddress.IPv6Address(bytes.fromhex(digits))
            kinds = int(flags, 16)
            if not kinds & RTF_UP or kinds & (RTF_REJECT | RTF_LOCAL | RTF_ANYCAST) or target.is_multicast:
                continue
            via = ipaddress.IPv6Address(bytes.fromhex(gateway))
            yield Route(f"{target}/{int(length, 16)}", str(via) if int(via) else "", name, int(metric, 16))
        except ValueError:
            continue


@reader("ephemeral ports", "network.ephemeral_ports")
def read_ephemeral_ports(system: System) -> Reading[tuple[int, int]]:
    """The first and last port of outgoing connections (ip(7))."""

    def ports() -> tuple[int, int]:
        first, last = (int(word) for word in system.text(PORTS_FILE).split())
        if not 0 < first <= last < 65536:
            raise ValueError(f"{first} to {last}")
        return first, last

    return attempt(PORTS_FILE, ports, must_exist=True)
