"""MASTER_PORT is taken on the node that would open the store.

Why it matters: rank 0 ends with EADDRINUSE, or, worse, the ranks connect to the store of an older run that has not
ended, and wait for a world that never comes together.
"""

import re

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rendezvous_job import is_head, is_inside_job, rendezvous


@check("master-port-busy", title="MASTER_PORT is free on the head node")
def master_port_busy(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    environment = machine.environment.value
    if meeting.port is None or is_inside_job(environment) or is_head(environment) is False:
        return
    if not meeting.is_local.value or not meeting.listener.value:
        return
    holder = meeting.listener.value
    match = re.match(r"pid ([0-9]+) ", holder)
    look = (
        command("ps -o pid,user,lstart,args -p {:pid}", match[1])
        if match
        else command("sudo ss -ltnp {}", f"sport = :{meeting.port}")
    )
    yield Problem(
        severity="error",
        summary=f"MASTER_PORT {meeting.port} is taken by {holder}; the store needs it free",
        meaning="Rank 0 ends with EADDRINUSE, or the ranks join the store of another run and wait there.",
        evidence=(meeting.listener, machine.environment),
        fix=Fix(
            "If it is a run that should be over, end it by its process id; else take another port, the same on every "
            "node. torchrun --standalone finds one for a single node.",
            commands=(look, command("export MASTER_PORT={:number}", _another(meeting.port))),
        ),
    )


def _another(port: int) -> int:
    """A port nearby that is not below 1024."""
    return port + 1 if 1024 <= port + 1 < 65536 else 29501
