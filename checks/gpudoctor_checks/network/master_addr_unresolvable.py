"""MASTER_ADDR is a name that does not resolve on this machine.

Why it matters: every rank looks the name up before anything else. Those that cannot wait until "the client socket has
timed out", and the message names the time-out, not the name.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rendezvous_job import rendezvous


@check("master-addr-unresolvable", title="MASTER_ADDR resolves")
def master_addr_unresolvable(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    # A name server that does not answer the doctor does not answer the job either.
    unanswered = meeting.resolved.missing_kind == "timeout"
    if not unanswered and meeting.resolved.value:
        return
    yield Problem(
        severity="error",
        summary=f"MASTER_ADDR is {meeting.address}, and "
        + (f"its look-up failed: {meeting.resolved.reason}" if unanswered else "no such name resolves here"),
        meaning="The ranks of this node never find the store, and the job ends at its time-out.",
        evidence=(meeting.resolved, machine.environment),
        fix=Fix(
            "Use the head node's address instead of its name, or enter the name in DNS or in /etc/hosts of every node.",
            commands=(command("getent ahosts {:host}", meeting.address),),
        ),
    )
