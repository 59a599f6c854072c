"""MASTER_PORT is not a port number.

Why it matters: torch reads it with int() and ends with a ValueError, or tries a port that does not exist. An empty
value most often comes from a launch script whose variable was not set.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.network.rendezvous_job import rendezvous

USUAL = 29500  # torchrun's default


@check("master-port-invalid", title="MASTER_PORT is a port")
def master_port_invalid(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    if "MASTER_PORT" not in environment or rendezvous(machine).port is not None:
        return
    yield Problem(
        severity="error",
        summary=f"MASTER_PORT is {environment['MASTER_PORT'][:60]!r}; a port is a number from 1 to 65535",
        meaning="Every rank ends with an error while it sets up its process group.",
        evidence=(machine.environment,),
        fix=Fix("Set a port, the same on every node.", commands=(command("export MASTER_PORT={:number}", USUAL),)),
    )
