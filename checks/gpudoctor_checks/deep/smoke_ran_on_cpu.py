"""The smoke test ran on the CPU.

Why it matters: it proves that torch computes, and says nothing about a GPU. On a machine that has GPUs, torch could not
use them.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import GPUS_HIDDEN


@check(
    "smoke-ran-on-cpu",
    title="The smoke test ran on a GPU",
    follows=("torch-cpu-only", "torch-cuda-unavailable", *GPUS_HIDDEN),
)
def smoke_ran_on_cpu(machine: Snapshot) -> Problems:
    smoke = machine.active.smoke
    if any(target.device != "cpu" for target in smoke.value):
        return
    gpus = machine.nvidia.gpus.value_or(())
    yield Problem(
        severity="warning" if gpus else "info",
        summary=f"the smoke test ran on the CPU; NVML sees {len(gpus)} GPUs that torch does not use"
        if gpus
        else "the smoke test ran on the CPU; torch sees no other device",
        meaning="Nothing was learnt about a GPU.",
        evidence=(smoke, machine.nvidia.gpus),
        fix=Fix(
            "The findings about torch and CUDA_VISIBLE_DEVICES say why." if gpus else "Run it on a machine with a GPU.",
            commands=(command("gpudoctor check pytorch devices"),) if gpus else (),
        ),
    )
