"""The first interface that NCCL takes leads nowhere outside this machine.

Why it matters: NCCL leaves out docker* and lo* (and virbr* from 2.28.3 on), and takes every other interface in the
kernel's order: br-*, veth*, cni0, flannel, tailscale. Their addresses are the same on every node, or unreachable, so a
job of several nodes waits for itself until its time-out.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.job import gpu_count, is_multi_node
from gpudoctor.knowledge.nccl.interfaces import COMMUNICATOR, IFNAME, nccl_choice
from gpudoctor.knowledge.nccl.repair import NOT_BY_NAME, take_out
from gpudoctor.knowledge.nccl.settings import effective
from gpudoctor.knowledge.network.interface_roles import find, inside_reason, recommended, seen


@check("socket-interface-virtual", title="NCCL's first interface leads to other nodes")
def socket_interface_virtual(machine: Snapshot) -> Problems:
    interfaces = machine.network.interfaces.value
    choice = nccl_choice(machine)
    first = find(interfaces, choice.first)
    reason = inside_reason(first, interfaces) if first is not None else ""
    # The loopback interface is socket-interface-loopback's.
    if first is None or not reason or first.kind == "loopback":
        return
    several = is_multi_node(machine.environment.value)
    if not several and not gpu_count(machine):
        return
    best = recommended(machine)
    commands: tuple[Command, ...] = (command("ip -br address"),)
    advice = "Give this machine an address on a network that the other nodes share."
    if best is not None:
        commands = (command("export {:variable}={:value}", IFNAME, f"={best.name}"),)
        advice = f"Name the interface that leads to the other nodes on every node; here {best.name} leads out."
    if choice.by_communicator[0]:
        advice, commands = NOT_BY_NAME, take_out(effective(machine)[COMMUNICATOR])
    yield Problem(
        severity=_severity(several, best is not None),
        summary=f"NCCL takes {first.name} ({choice.first_address}) first, which is {reason}; "
        + (f"{best.name} leads out" if best is not None else "no other interface leads out"),
        meaning="Ranks on other nodes cannot reach that address; the job waits in its first collective."
        + ("" if several else " On one node it does not matter."),
        evidence=(seen(machine, first.name), machine.environment),
        fix=Fix(advice, commands=commands),
    )


def _severity(several: bool, has_better: bool) -> Severity:
    if not several:
        return "info"
    # A VPN or overlay may be meant, where it is all that there is.
    return "error" if has_better else "warning"
