"""NCCL would send data over interfaces that lead nowhere, beside the one that is meant.

Why it matters: without RDMA, NCCL's NET/Socket makes a device of every interface that it finds, bridges and VPNs
included, and spreads its channels over them. Nobody tries whether an address can be reached (NVIDIA/nccl issue 913), so
a single stray bridge makes a job of several nodes hang.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import gpu_count, is_multi_node
from gpudoctor.knowledge.nccl.interfaces import IFNAME, nccl_choice
from gpudoctor.knowledge.nccl.socket_transport import data_over_sockets
from gpudoctor.knowledge.network.interface_roles import find, inside_reason, seen
from gpudoctor.knowledge.wording import listed


@check("socket-interfaces-stray", title="NCCL's sockets use the interfaces that lead to other nodes")
def socket_interfaces_stray(machine: Snapshot) -> Problems:
    interfaces = machine.network.interfaces.value
    choice = nccl_choice(machine)
    reasons = {}
    for name in choice.names:
        interface = find(interfaces, name)
        if interface is not None and (reason := inside_reason(interface, interfaces)):
            reasons[name] = reason
    good = [name for name in choice.names if name not in reasons]
    # When the first one leads nowhere, that is socket-interface-virtual's to say.
    if not good or not reasons or choice.first in reasons or not data_over_sockets(machine):
        return
    several = is_multi_node(machine.environment.value)
    if not several and not gpu_count(machine):
        return
    described = listed(f"{name} ({reason})" for name, reason in reasons.items())
    yield Problem(
        severity="warning" if several else "info",
        summary=f"NCCL's sockets would use {listed(choice.names)}; of these {described} "
        + ("leads" if len(reasons) == 1 else "lead")
        + " to no other node",
        meaning="Over several nodes NCCL sends part of the data there, and hangs or fails in its first collective. "
        "On one node it does not matter.",
        evidence=(seen(machine, *choice.names), machine.environment, machine.network.rdma_devices),
        fix=Fix(
            "Before a run over several nodes, name the interfaces that lead to them.",
            commands=(command("export {:variable}={:value}", IFNAME, "=" + ",".join(good)),),
        ),
    )
