"""NCCL_NET=Socket is set on a machine with working RDMA ports.

Why it matters: it forces TCP sockets, which is a test for whether the fabric is at fault. Left behind, it makes every
later job several times slower between nodes.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.fabric import ports_in_words, ports_seen, rdma_port_names
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, where


@check("nccl-net-socket-left", title="NCCL is not held to TCP sockets")
def nccl_net_socket_left(machine: Snapshot) -> Problems:
    setting = effective(machine).get("NCCL_NET")
    if setting is None or setting.value.lower() != "socket":  # strcasecmp, as NCCL compares
        return
    ports = rdma_port_names(machine)
    if ports:
        yield Problem(
            severity="warning",
            summary=f"NCCL_NET=Socket{where(setting)} with {ports_in_words(ports)}",
            meaning="NCCL sends over TCP sockets between nodes, several times slower than over these ports.",
            fix=Fix(
                "Take it out. To have a fabric that fails say so, NCCL_NET=IB makes the fallback an error.",
                commands=take_out(setting),
            ),
            evidence=evidence(machine, setting, ports_seen(machine)),
        )
