"""MASTER_ADDR leads every node to itself.

Why it matters: with localhost, or with a head node's name that its own /etc/hosts puts at 127.0.1.1, each node looks
for the store on itself. Several nodes then wait for each other until their time-out.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import is_loopback, is_multi_node
from gpudoctor.knowledge.network.interface_roles import recommended
from gpudoctor.knowledge.network.rendezvous_job import is_head, rendezvous, surely_multi_node


@check("master-addr-loopback", title="MASTER_ADDR is an address that other nodes reach")
def master_addr_loopback(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    environment = machine.environment.value
    if not is_multi_node(environment) or not meeting.resolved.value:
        return
    if not all(map(is_loopback, meeting.resolved.value)):
        return
    best = recommended(machine)
    own = (
        next((address.address for address in best.addresses if address.scope == "global"), "")
        if best is not None
        else ""
    )
    at = "" if meeting.address in meeting.resolved.value else f", which resolves to {meeting.resolved.value[0]} here"
    yield Problem(
        # MASTER_ADDR alone may also be set for one node.
        severity="error" if surely_multi_node(environment) else "warning",
        summary=f"MASTER_ADDR is {meeting.address}{at}; other nodes need an address that leads to the head node",
        meaning="Each node looks for the store on itself, and the job waits until its time-out.",
        evidence=(machine.environment, meeting.resolved),
        fix=Fix(
            "Set MASTER_ADDR to the head node's address on every node"
            + (f"; if this is the head node, its address is {own}." if own else "."),
            commands=(command("export MASTER_ADDR={:host}", own),) if own and is_head(environment) is not False else (),
        ),
    )
