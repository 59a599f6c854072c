"""MASTER_PORT is one of the ports that the kernel hands out to outgoing connections.

Why it matters: now and then some connection of this machine has that very port when the job starts, and rank 0 ends
with EADDRINUSE; the next start works. torchrun's 29500 is below the range that Linux uses.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rendezvous_job import is_head, rendezvous

USUAL = 29500  # torchrun's default


@check("master-port-ephemeral", title="MASTER_PORT is outside the range of outgoing connections")
def master_port_ephemeral(machine: Snapshot) -> Problems:
    meeting = rendezvous(machine)
    first, last = machine.network.ephemeral_ports.value
    if meeting.port is None or not first <= meeting.port <= last or is_head(machine.environment.value) is False:
        return
    outside = USUAL if not first <= USUAL <= last else first - 1 if first > 1024 else 0
    yield Problem(
        severity="info",
        summary=f"MASTER_PORT {meeting.port} is within {first} to {last}, which the kernel hands out to connections",
        meaning="Now and then the port is taken when the job starts, and rank 0 ends with EADDRINUSE.",
        evidence=(machine.network.ephemeral_ports, machine.environment),
        fix=Fix(
            "Take a port outside the range, the same on every node.",
            commands=(command("export MASTER_PORT={:number}", outside),) if outside else (),
        ),
    )
