"""torch is built for the CPU, on a machine with NVIDIA GPUs.

Why it matters: `torch.cuda.is_available()` is False and the training runs on the CPU, or ends with "Torch not compiled
with CUDA enabled". It happens when a resolver or another index brought the `+cpu` wheel.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.pytorch.torch_wheels import advice


@check("torch-cpu-only", title="torch is built for the GPUs of this machine")
def torch_cpu_only(machine: Snapshot) -> Problems:
    files, gpus = machine.training.torch_files, machine.nvidia.gpus
    build = files.value
    if build.cuda or build.hip or build.xpu or not gpus.value:
        return
    text, lines = advice(machine)
    count = len(gpus.value)
    yield Problem(
        severity="error",
        summary=f"torch {build.version} is built without CUDA; this machine has {count} NVIDIA GPU{'s'[: count != 1]}",
        meaning="The GPUs stay unused: the training runs on the CPU or stops at its first CUDA call.",
        evidence=(files, gpus),
        fix=Fix(text, commands=lines),
    )
