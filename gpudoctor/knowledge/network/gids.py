"""Entries of a RoCE port's GID table, as NCCL's choice of one reads them (src/transport/net_ib/connect.cc, 2.21.5+)."""

from collections.abc import Sequence

from gpudoctor.snapshot import Gid

LINK_LOCAL = "fe80:"
IPV4_MAPPED = "0000:0000:0000:0000:0000:ffff:"


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
