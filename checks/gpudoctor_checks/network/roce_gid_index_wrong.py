"""NCCL_IB_GID_INDEX names a GID that cannot carry the traffic.

Why it matters: the number is copied from blog posts (3 is common), and the order of a GID table differs between
machines, drivers and ports. An empty entry fails at once ("ibv_modify_qp failed"); a RoCE v1 or link-local one
reaches no node behind a router. With an index that is beyond a port's table, NCCL 2.32 gives up RDMA on all ports and
goes over TCP; older ones fail when they connect. NCCL >= 2.21.5 finds the right entry itself when the variable is not
set. (NCCL src/transport/net_ib/connect.cc, 2.32.3 itself; the variable is not read for InfiniBand links.)
"""

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.nccl.settings import dotted, effective, evidence, nccl_version, set_integer, where
from gpudoctor.knowledge.network.gids import INDEX, LOOKS_SINCE, is_link_local, is_v2, types_unread
from gpudoctor.knowledge.network.rdma_ports import is_roce, taken
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.snapshot import Gid


@check("roce-gid-index-wrong", title="NCCL_IB_GID_INDEX names a RoCE v2 address")
def roce_gid_index_wrong(machine: Snapshot) -> Problems:
    setting = effective(machine).get(INDEX)
    index = set_integer(effective(machine), INDEX, -1)
    if setting is None or index < 0:
        return
    choice = rdma_choice(machine)
    for place in taken(machine, choice.refused or choice.taken):
        if not is_roce(place.port):
            continue
        gids = place.port.gids.value
        fault = "is beyond its table" if choice.refused else _fault(gids, index)
        if not fault:
            continue
        severity: Severity = "error" if choice.refused or fault == "is empty" else "warning"
        better = next((gid.index for gid in gids if is_v2(gid) and not is_link_local(gid)), None)
        yield Problem(
            severity=severity,
            summary=f"{INDEX}={setting.value}: GID {index} of {place.name} {fault}",
            meaning="NCCL takes no port at all then, and goes over TCP."
            if choice.refused
            else "Connections over this port fail at once."
            if severity == "error"
            else "Nodes outside this Ethernet segment cannot be reached; the job times out.",
            evidence=evidence(machine, place.port.gids),
            fix=_fix(machine, better, where(setting)),
        )


def _fault(gids: tuple[Gid, ...], index: int) -> str:
    entry = next((gid for gid in gids if gid.index == index), None)
    if entry is None:
        return "is empty"
    if types_unread(gids):
        return ""
    if entry.type and not is_v2(entry):
        return "is a RoCE v1 address"
    return "is a link-local address" if is_link_local(entry) else ""


def _fix(machine: Snapshot, better: int | None, origin: str) -> Fix:
    version = nccl_version(machine)
    if version >= LOOKS_SINCE:
        return Fix(
            f"Unset it{origin}: NCCL {dotted(version)} finds the entry itself.",
            commands=(command("unset {:variable}", INDEX),),
        )
    if better is None:
        return Fix("No entry is a RoCE v2 address: give the port's interface an IP address first.")
    return Fix(
        "Name the entry of the RoCE v2 address.", commands=(command("export {:variable}={:number}", INDEX, better),)
    )
