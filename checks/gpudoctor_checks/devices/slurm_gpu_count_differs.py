"""This process sees another number of GPUs than Slurm gave the job.

Why it matters: with fewer, ranks that count on Slurm's number die with "invalid device ordinal"; with more, the job
can run on GPUs of other jobs, because the cluster does not constrain devices and nothing sets CUDA_VISIBLE_DEVICES.
"""

import re
from collections.abc import Mapping

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import GPUS_HIDDEN
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.now import driver_list, variable, visible_count, whole_number
from gpudoctor.knowledge.wording import counted

PER_TASK = ("SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_TRES_PER_TASK", "SLURM_TRES_BIND")
"""With these, Slurm gives each task a part of the step's GPUs, and fewer are meant."""


@check(
    "slurm-gpu-count-differs",
    title="As many GPUs are visible as Slurm gave the job",
    follows=GPUS_HIDDEN,
)
def slurm_gpu_count_differs(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    visible, expected = visible_count(machine), _given(environment)
    if expected is None or visible == expected[1]:
        return
    name, given = expected
    if visible < given and any(environment.get(part) for part in PER_TASK):
        return
    if visible < given:
        meaning = "Ranks that take Slurm's count for theirs die with an invalid device ordinal."
        fix = Fix(
            f"See what {VARIABLE} selects, and start the program with srun, which sets it for the step.",
            commands=(command("gpudoctor devices"),),
        )
    else:
        meaning = "The job can take GPUs that belong to other jobs on this node."
        fix = Fix(
            f"Start the program with srun --gpus={given}, which sets {VARIABLE}; an administrator can set "
            "ConstrainDevices=yes in cgroup.conf.",
            commands=(command("scontrol show config | grep -i cgroup"),),
        )
    yield Problem(
        severity="error" if visible < given else "warning",
        summary=f"{counted(visible, 'GPU')} visible; Slurm gave this node's part of the job {given} ({name})",
        meaning=meaning,
        fix=fix,
        evidence=(variable(machine, name), variable(machine, VARIABLE), driver_list(machine.cuda.visible)),
    )


def _given(environment: Mapping[str, str]) -> tuple[str, int] | None:
    """The variable that tells, and how many GPUs it gives the step or job on this node."""
    # The step's own count is the nearest to this process; SLURM_JOB_GPUS is set for the batch script only.
    for name in ("SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS"):
        text = environment.get(name, "").strip()
        number = whole_number(text) if name == "SLURM_GPUS_ON_NODE" else _listed(text)
        if number is not None:
            return name, number
    return None


def _listed(text: str) -> int | None:
    """How many GPUs "0,2-3" lists; None for what is no such list."""
    if re.fullmatch(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*", text) is None:
        return None
    total = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        total += max(0, int(last or first) - int(first) + 1)
    return total
