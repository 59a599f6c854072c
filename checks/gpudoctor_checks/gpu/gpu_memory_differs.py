"""GPUs of one model have different amounts of memory.

Why it matters: every rank uses the same batch size, so the GPU with the least memory decides what fits; the job runs
out of memory there while the others have room.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.gpu_labels import labels
from gpudoctor.knowledge.gpus.like_gpus import known, models, raise_unread

GIB = 1024**3
TOLERANCE = 0.01  # our rule of thumb: firmware reserves a few MiB more on some boards; ECC on GDDR takes 6 %


@check("gpu-memory-differs", title="GPUs of one model have the same memory", short="memory size differs")
def gpu_memory_differs(machine: Snapshot) -> Problems:
    gpus = machine.nvidia.gpus.value
    for group in models(gpus):
        sizes = known(group, lambda gpu: gpu.memory_total_bytes)
        if not sizes:
            continue
        most = max(size for _, size in sizes)
        small = [(gpu, size) for gpu, size in sizes if size < most * (1 - TOLERANCE)]
        if small:
            least_gpu, least = min(small, key=lambda pair: pair[1])
            largest = next(gpu for gpu, size in sizes if size == most)
            yield Problem(
                severity="warning",
                summary=f"{labels(gpu for gpu, _ in small)} of {group[0].name.value}: {least / GIB:.1f} GiB of memory; "
                f"others of this name have {most / GIB:.1f} GiB",
                meaning="The batch must fit on the smallest GPU, or the job runs out of memory there.",
                evidence=(least_gpu.memory_total_bytes, largest.memory_total_bytes),
                gpus=tuple(gpu.index for gpu, _ in small),
                fix=Fix(
                    "Compare the ECC modes first; otherwise these are variants of one name, or a board with a fault.",
                    commands=(command("nvidia-smi --query-gpu=index,name,memory.total,ecc.mode.current --format=csv"),),
                ),
            )
    raise_unread(gpu.name for gpu in gpus)
    raise_unread(gpu.memory_total_bytes for gpu in gpus)
