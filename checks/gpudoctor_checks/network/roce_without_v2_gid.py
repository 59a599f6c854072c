"""A RoCE port that NCCL takes has no RoCE v2 address that could be routed.

Why it matters: NCCL looks in the port's GID table for a RoCE v2 entry of an IP address (NCCL >= 2.21.5; older ones
take the entry that NCCL_IB_GID_INDEX names). Without one it takes entry 0: link-local, often RoCE v1, which reaches
no further than one Ethernet segment, and connections to other nodes time out (status=12). The entries come with the
IP address of the port's network interface. (NCCL src/transport/net_ib/connect.cc.)
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.gids import is_link_local, is_v2, types_unread
from gpudoctor.knowledge.network.rdma_ports import is_roce, taken
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.snapshot import NotRead, RdmaPort, missing


@check("roce-without-v2-gid", title="RoCE ports have a RoCE v2 address")
def roce_without_v2_gid(machine: Snapshot) -> Problems:
    unknown: RdmaPort | None = None
    for place in taken(machine, rdma_choice(machine).taken):
        if not is_roce(place.port):
            continue
        gids = place.port.gids.value
        if types_unread(gids):
            unknown = place.port
            continue
        if any(is_v2(gid) and not is_link_local(gid) for gid in gids):
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
