"""TORCH_NCCL_BLOCKING_WAIT is on.

Why it matters: every wait() then blocks the Python thread until the collective is done, so that computing and
communicating no longer overlap. It is for tests; the watchdog finds timeouts without it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_variables import switched
from gpudoctor.knowledge.visible.now import variable

NAMES = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")


@check("torch-nccl-blocking-wait", title="torch does not block in every collective")
def torch_nccl_blocking_wait(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    if switched(environment, NAMES[0], False):
        name = next(name for name in NAMES if environment.get(name))
        yield Problem(
            severity="warning",
            summary=f"{name}={environment[name]}: every wait for a collective blocks the Python thread",
            meaning="Computing and communicating no longer overlap, and training is slower.",
            fix=Fix(
                "Unset it; timeouts are found by the watchdog without it.",
                commands=(command("unset {:variable}", name),),
            ),
            evidence=(variable(machine, name),),
        )
