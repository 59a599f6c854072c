"""An InfiniBand port has a link, and no subnet manager has taken it in.

Why it matters: the port stays in INIT, without an address (LID), and NCCL takes ACTIVE ports only: it leaves the
port out, or falls back to TCP when it is the only one. Every InfiniBand fabric needs one running subnet manager, on a
switch or a host. (NCCL src/transport/net_ib/init.cc, all versions; InfiniBand specification, PortState.)
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rdma_ports import places
from gpudoctor.knowledge.wording import listed


@check("rdma-port-without-subnet-manager", title="InfiniBand ports are managed by a subnet manager")
def rdma_port_without_subnet_manager(machine: Snapshot) -> Problems:
    lonely = []
    for place in places(machine, lambda port: port.state):
        port = place.port
        if port.state.value != "INIT" or port.link_layer.value != "InfiniBand":
            continue
        # Unread, as of a paste that was cut there: INIT alone tells that no subnet manager has taken the port in yet.
        if port.subnet_manager_lid.value_or(0) == 0:
            lonely.append(place)
    if lonely:
        name = lonely[0].device.name
        read = [place for place in lonely if place.port.subnet_manager_lid.is_read]
        yield Problem(
            severity="warning",
            summary=f"{listed(place.name for place in lonely)} {'waits' if len(lonely) == 1 else 'wait'} in INIT: "
            "no subnet manager " + ("(sm_lid 0)" if read else "has taken it in (sm_lid was not read)"),
            meaning="NCCL leaves these ports out; without another ACTIVE one it falls back to TCP without a warning.",
            evidence=tuple(
                reading
                for place in lonely[:4]
                for reading in (place.port.state, place.port.subnet_manager_lid)
                if reading.is_read
            ),
            fix=Fix.of(
                "Start the subnet manager of this fabric: on the switch, by UFM, or opensm on one host of it. With "
                "several fabrics, each needs its own.",
                command("ibstat {:interface}", name),
                command("sudo sminfo -C {:interface}", name),
                command("systemctl status opensm"),
            ),
        )
