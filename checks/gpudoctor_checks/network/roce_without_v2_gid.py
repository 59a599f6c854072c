"""A RoCE port that NCCL takes has no RoCE v2 address that could be routed, or none that NCCL looks for.

Why it matters: NCCL looks in the port's GID table for a RoCE v2 entry of an IPv4 address (NCCL >= 2.21.5; older ones
take the entry that NCCL_IB_GID_INDEX names), of an IPv6 address only where NCCL_IB_ADDR_FAMILY=AF_INET6 says so.
Without one it takes entry 0: link-local, often RoCE v1, which reaches no further than one Ethernet segment, and
connections to other nodes time out (status=12). The entries come with the IP address of the port's network interface.
(NCCL src/transport/net_ib/connect.cc.)
"""

from collections.abc import Sequence

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.settings import effective, evidence, set_integer, set_text, version_if_known
from gpudoctor.knowledge.network.addresses import parsed
from gpudoctor.knowledge.network.gids import (
    FAMILY,
    INDEX,
    LOOKS_SINCE,
    RANGE,
    VERSION,
    is_ipv4,
    is_link_local,
    is_v2,
    nccl_index,
    types_unread,
)
from gpudoctor.knowledge.network.rdma_ports import DevicePort, is_roce, taken
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import Gid, NotRead, RdmaPort, missing


@check("roce-without-v2-gid", title="RoCE ports have a RoCE v2 address")
def roce_without_v2_gid(machine: Snapshot) -> Problems:
    unknown: RdmaPort | None = None
    settings = effective(machine)
    version = version_if_known(machine)
    looks = version is not None and version >= LOOKS_SINCE and set_integer(settings, INDEX, -1) < 0
    if looks and (within := set_text(settings, RANGE)):
        parsed(within.partition("/")[0], machine.environment)  # of a hidden one nobody knows what is in it
    for place in taken(machine, rdma_choice(machine).taken):
        if not is_roce(place.port):
            continue
        gids = place.port.gids.value
        if types_unread(gids):
            unknown = place.port
            continue
        routable = [gid for gid in gids if is_v2(gid) and not is_link_local(gid)]
        if routable and (not looks or nccl_index(gids, settings) in (gid.index for gid in routable)):
            continue
        if routable:
            yield _of_others(machine, place, routable)
            continue
        interface = next((gid.interface for gid in gids if gid.interface), "") or next(
            iter(place.device.interfaces), ""
        )
        has_v2 = any(is_v2(gid) for gid in gids)
        yield Problem(
            severity="warning",
            summary=f"{place.name} has no RoCE v2 GID"
            + (" of an IP address, only link-local ones" if has_v2 else "")
            + f" ({len(gids)} GIDs)",
            meaning="NCCL takes a v1 or link-local GID, which reaches nodes of the same Ethernet segment only; others "
            "time out.",
            evidence=(place.port.gids,),
            fix=Fix.of(
                "Give the port's interface an IP address, and let the driver make RoCE v2 entries; or keep NCCL from "
                "this port with NCCL_IB_HCA.",
                *((command("ip addr show {:interface}", interface),) if interface else ()),
                command("sudo cma_roce_mode -d {:interface} -p {:number}", place.device.name, place.port.number),
            ),
        )
    if unknown is not None:
        raise NotRead(missing(unknown.gids.source, "the types of the GIDs could not be read (gid_attrs/types)"))


def _of_others(machine: Snapshot, place: DevicePort, routable: Sequence[Gid]) -> Problem:
    """There is such an entry, and it is not of the family, subnet or version that NCCL looks for."""
    settings = effective(machine)
    told = [settings[name] for name in (FAMILY, RANGE, VERSION) if name in settings]
    gids = place.port.gids
    index = nccl_index(gids.value, settings)
    taken_ = next((gid for gid in gids.value if gid.index == index), None)
    kind = "an empty one" if taken_ is None else "link-local" if is_link_local(taken_) else "RoCE v1"
    if told or any(is_ipv4(gid) for gid in routable):
        names = listed(f"{each.name}={each.value}" for each in told)
        fix = Fix.of(f"Take {names} out, or set what fits the port's addresses.")
    else:
        names = ""
        fix = Fix.of(
            "Have NCCL look for IPv6 addresses, on every node.", command("export NCCL_IB_ADDR_FAMILY=AF_INET6")
        )
    of_family = "IPv6" if all(not is_ipv4(gid) for gid in routable) else "IP"
    return Problem(
        severity="warning",
        summary=f"NCCL takes GID {index} of {place.name}, {kind}: its RoCE v2 GIDs of {of_family} addresses are not "
        + (f"what {names} asks for" if names else "what it looks for"),
        meaning="The GID that NCCL takes reaches nodes of the same Ethernet segment only; others time out.",
        evidence=evidence(machine, gids, *told),
        fix=fix,
    )
