"""torch's NCCL watchdog is kept from ending a job that hangs.

Why it matters: with TORCH_NCCL_ASYNC_ERROR_HANDLING=0 an error or timeout of a collective ends nothing: the ranks wait
for ever and the GPUs stay reserved. TORCH_NCCL_ENABLE_MONITORING=0 takes the guard of the watchdog itself away.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_variables import numbered, switched
from gpudoctor.knowledge.visible.now import variable

HANDLING, OLD_HANDLING = "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"
MONITORING = "TORCH_NCCL_ENABLE_MONITORING"
DEFAULT_HANDLING = 3  # SkipCleanUp, since torch 2.2


@check("torch-nccl-watchdog-off", title="torch ends a job whose collectives fail or hang")
def torch_nccl_watchdog_off(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    if numbered(environment, HANDLING, DEFAULT_HANDLING) == 0:
        name = HANDLING if HANDLING in environment else OLD_HANDLING
        yield _problem(
            machine, name, "an error or timeout of a collective ends nothing", "The ranks wait for ever after a fault."
        )
    if not switched(environment, MONITORING, True):
        yield _problem(
            machine, MONITORING, "nobody watches the watchdog", "A watchdog that hangs itself keeps the job for ever."
        )


def _problem(machine: Snapshot, name: str, seen: str, meaning: str) -> Problem:
    return Problem(
        severity="warning",
        summary=f"{name}={machine.environment.value[name]}: {seen}",
        meaning=meaning,
        fix=Fix(
            "Unset it: torch's default ends the process and says which collective hung.",
            (command("unset {:variable}", name),),
        ),
        evidence=(variable(machine, name),),
    )
