"""CUDA_VISIBLE_DEVICES is set to a value that hides every GPU.

Why it matters: unset means all GPUs, set but empty means none. The same goes for "-1", for "NoDevFiles", which old
versions of Slurm wrote into jobs without a GPU, and for "none". Training then fails, or runs on the CPU unnoticed.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.now import gpu_list, selection, variable
from gpudoctor.knowledge.visible.words import advice, meaning
from gpudoctor.knowledge.wording import counted


@check("cuda-visible-devices-empty", title="CUDA_VISIBLE_DEVICES does not hide all GPUs")
def cuda_visible_devices_empty(machine: Snapshot) -> Problems:
    now = selection(machine)
    slots = now.enumeration.slots
    for note in now.notes:
        if note.kind in ("empty", "hides-all") and slots:
            job = machine.environment.value.get("SLURM_JOB_ID")
            if job is None:
                fix = Fix(advice(note, now), commands=(command("unset {:variable}", VARIABLE),))
            else:
                fix = Fix(
                    "Ask Slurm for GPUs with --gpus or --gres when the job is submitted: it has set the variable so.",
                    commands=(command("scontrol show job {}", " ".join(job.split())),),
                )
            yield Problem(
                severity="error",
                summary=f"{note.problem}; {counted(len(slots), 'GPU')} hidden",
                meaning=meaning(note, now),
                fix=fix,
                evidence=(variable(machine, VARIABLE), gpu_list(machine)),
            )
