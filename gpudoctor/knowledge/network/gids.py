"""Entries of a RoCE port's GID table, and which of them NCCL takes (src/transport/net_ib/connect.cc, 2.21.5+)."""

import ipaddress
from collections.abc import Mapping, Sequence

from gpudoctor.knowledge.nccl.settings import Setting, set_integer, set_text
from gpudoctor.snapshot import Gid

LINK_LOCAL = "fe80:"
IPV4_MAPPED = "0000:0000:0000:0000:0000:ffff:"
INDEX, FAMILY, RANGE, VERSION = (
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_ROCE_VERSION_NUM",
)
LOOKS_SINCE = (2, 21, 5)
"""Older ones take entry 0, or what NCCL_IB_GID_INDEX names."""
EMPTY = ":".join(["0000"] * 8)


def is_v2(gid: Gid) -> bool:
    """ "RoCE v2" in gid_attrs/types; "IB/RoCE v1" is the other."""
    return gid.type == "RoCE v2"


def is_link_local(gid: Gid) -> bool:
    return gid.gid.startswith(LINK_LOCAL)


def is_ipv4(gid: Gid) -> bool:
    return gid.gid.startswith(IPV4_MAPPED)


def types_unread(gids: Sequence[Gid]) -> bool:
    """Whether nothing says which entries are v2: containers refuse gid_attrs/types with EINVAL."""
    return bool(gids) and not any(gid.type for gid in gids)


def nccl_index(gids: Sequence[Gid], settings: Mapping[str, Setting]) -> int:
    """The entry that NCCL takes of a RoCE port. It begins with entry 0, and goes on to another of the family that it
    looks for, IPv4 unless told otherwise, and then to one of the version that it looks for."""
    if (named := set_integer(settings, INDEX, -1)) >= 0:
        return named
    table = {gid.index: gid for gid in gids}
    ipv4 = set_text(settings, FAMILY) != "AF_INET6"
    wanted = f"RoCE v{set_integer(settings, VERSION, 2)}"
    network = _network(set_text(settings, RANGE), ipv4)
    taken = 0
    for index in range(1, max(table, default=0) + 2):  # one that is empty behind the last
        now, other = (table.get(each, Gid(each, EMPTY)) for each in (taken, index))
        if is_ipv4(other) is not ipv4 or not _is_in(other, network):
            continue
        better = _is_routable(other) and wanted in other.type and (now.type != other.type or not _is_routable(now))
        if is_ipv4(now) is not ipv4 or better:
            taken = index
    return taken


def _is_routable(gid: Gid) -> bool:
    return gid.gid != EMPTY and not is_link_local(gid)


def _network(text: str, ipv4: bool) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """What NCCL does not understand restricts nothing."""
    try:
        return (ipaddress.IPv4Network if ipv4 else ipaddress.IPv6Network)(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _is_in(gid: Gid, network: ipaddress.IPv4Network | ipaddress.IPv6Network | None) -> bool:
    if network is None:
        return True
    address = ipaddress.IPv6Address(gid.gid)
    return (address if network.version == 6 else ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)) in network
