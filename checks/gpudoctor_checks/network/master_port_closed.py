"""Nothing listens on MASTER_PORT of the head node.

Why it matters: before the job is started that is as it should be. While it is starting, it means that rank 0 died,
listens on another port, or that MASTER_ADDR is the wrong machine.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rendezvous_job import rendezvous


@check("master-port-closed", title="The store listens on the head node")
def master_port_closed(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    if not meeting.resolved.value or meeting.is_local.value or meeting.port is None:
        return
    if meeting.connection.value != "refused":
        return
    yield Problem(
        severity="info",
        summary=f"{meeting.address} answers, and nothing listens on its port {meeting.port} yet",
        meaning="Normal before rank 0 has started. After that, the ranks of this node wait until their time-out.",
        evidence=(meeting.connection, machine.environment),
        fix=Fix(
            "While the job starts, look on the head node whether rank 0 runs and which port it listens on.",
            commands=(command("ssh {:host} ss -ltn", meeting.address),),
        ),
    )
