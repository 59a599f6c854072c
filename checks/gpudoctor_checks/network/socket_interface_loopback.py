"""NCCL would talk to the other nodes over the loopback interface.

Why it matters: an address of 127.0.0.0/8 leads every node to itself. A run over several nodes waits for the others
until its time-out. It comes from NCCL_SOCKET_IFNAME=lo of a test on one machine, from an exclusion such as ^docker0
(which lets lo back in), or from a machine without any other address.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_multi_node
from gpudoctor.knowledge.nccl.interfaces import COMMUNICATOR, IFNAME, nccl_choice
from gpudoctor.knowledge.nccl.repair import NOT_BY_NAME, take_out
from gpudoctor.knowledge.nccl.settings import effective
from gpudoctor.knowledge.network.interface_roles import find, recommended, seen


@check("socket-interface-loopback", title="NCCL talks to other nodes over a real interface")
def socket_interface_loopback(machine: Snapshot) -> Problems:
    choice = nccl_choice(machine)
    first = find(machine.network.interfaces.value, choice.first)
    if first is None or first.kind != "loopback" or not is_multi_node(machine.environment.value):
        return
    best = recommended(machine)
    fix = Fix(
        "Give this machine an address on a network that the other nodes share.", commands=(command("ip -br address"),)
    )
    if best is not None:
        fix = Fix(
            f"Name the interface that leads to the other nodes; {best.name} leads out of this machine.",
            commands=(command("export {:variable}={:value}", IFNAME, "=" + best.name),),
        )
    if choice.by_communicator[0]:
        fix = Fix(NOT_BY_NAME, commands=take_out(effective(machine)[COMMUNICATOR]))
    yield Problem(
        severity="error",
        summary=f"NCCL's first interface is {first.name} ({choice.first_rule}), and this job has several nodes",
        meaning="Each node tells the others to reach it at 127.0.0.1; they wait until the time-out.",
        evidence=(seen(machine, first.name), machine.environment),
        fix=fix,
    )
