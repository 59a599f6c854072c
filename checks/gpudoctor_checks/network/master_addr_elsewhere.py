"""Rank 0 runs on this node, and MASTER_ADDR is another machine.

Why it matters: rank 0 opens the store on its own machine. When MASTER_ADDR names another one, nobody listens there,
and every rank waits until "the client socket has timed out".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.interface_roles import recommended
from gpudoctor.knowledge.network.rendezvous_job import is_head, rendezvous


@check("master-addr-elsewhere", title="MASTER_ADDR is this machine where rank 0 runs")
def master_addr_elsewhere(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    if not is_head(machine.environment.value) or not meeting.resolved.value or meeting.is_local.value:
        return
    best = recommended(machine)
    own = (
        next((address.address for address in best.addresses if address.scope == "global"), "")
        if best is not None
        else ""
    )
    yield Problem(
        # A service address of Kubernetes leads back here without being an address of this machine.
        severity="warning",
        summary=f"rank 0 runs on this node, and MASTER_ADDR {meeting.address} ({meeting.resolved.value[0]}) "
        f"is no address of it",
        meaning="The store opens here while every rank looks for it there, unless that address is forwarded to here.",
        evidence=(machine.environment, meeting.is_local),
        fix=Fix(
            "Set MASTER_ADDR to this node's address on every node, or give rank 0 to the node that it names.",
            commands=(command("export MASTER_ADDR={:host}", own),) if own else (),
        ),
    )
