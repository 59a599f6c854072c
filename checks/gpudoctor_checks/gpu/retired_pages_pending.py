"""Faulty memory pages of a GPU wait for a reset to be retired.

Why it matters: GPUs before Ampere give up pages with memory errors, but only when the driver is loaded afresh. Until
then the bad page is handed out again, and the job that gets it can be killed by a double-bit error.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.explaining import MEMORY_WORN_OUT
from gpudoctor.knowledge.gpus.gpu_labels import label, reset


@gpu_check(
    "retired-pages-pending",
    title="No memory page waits to be retired",
    short="bad memory",
    follows=(*MEMORY_WORN_OUT, "gpu-recovery-action-needed"),
)
def retired_pages_pending(gpu: Gpu, machine: Snapshot) -> Problems:
    pages = gpu.retired_pages.value
    if pages.pending:
        yield Problem(
            severity="error",
            summary=f"{label(gpu)} has memory pages that wait for a reset to be retired "
            f"({pages.single_bit + pages.double_bit} retired so far)",
            meaning="The faulty page is still handed out; a job that gets it may be killed by a double-bit error.",
            evidence=(gpu.retired_pages,),
            fix=Fix(
                "End what uses this GPU and reset it before the next job; a reboot does the same.",
                commands=(reset(gpu), command("nvidia-smi -q -i {:number} -d PAGE_RETIREMENT", gpu.index)),
            ),
        )
