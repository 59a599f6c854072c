"""A GPU is computing for somebody else before the training starts.

Why it matters: two jobs on one GPU slow each other down, and the slower GPU holds up all the others of the job; the
first one that grows also takes the other's memory.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label

BUSY_PERCENT = 20  # Primus' node_smoke calls a GPU active above this


@gpu_check(
    "gpu-busy",
    title="GPUs are idle before training",
    short="in use",
    follows=("gpu-memory-held", "zombie-holds-gpu"),
)
def gpu_busy(gpu: Gpu, machine: Snapshot) -> Problems:
    percent = gpu.utilization_gpu_percent.value
    if percent <= BUSY_PERCENT:
        return
    computing = [process for process in gpu.processes.value_or(()) if process.kind == "compute"]
    if computing and all(process.is_own for process in computing):
        return
    foreign = [process for process in computing if not process.is_own]
    # Desktops compose, scroll and play video; without a compute process that is no one's job.
    desktop = not foreign and gpu.display_active.value_or(False)
    named = ", ".join(str(process.pid) for process in foreign[:4])
    yield Problem(
        severity="info" if desktop else "warning",
        summary=f"{label(gpu)} is {percent} % busy; up to {BUSY_PERCENT} % counts as idle"
        + (f" (process {named})" if named else ""),
        meaning="A training started now shares the GPU with this work, and its other GPUs wait for this one.",
        evidence=(gpu.utilization_gpu_percent, *((gpu.processes,) if foreign else ())),
        fix=Fix.of(
            "Wait for the other work, or leave this GPU out with CUDA_VISIBLE_DEVICES.",
            command("nvidia-smi pmon -i {:number} -c 1", gpu.index),
            *(command("ps -fp {:pid}", process.pid) for process in foreign[:4]),
        ),
    )
