"""A faulty memory row waits for a GPU reset to be remapped.

Why it matters: the row is known to be bad. Until the reset the GPU only avoids it where it can, and a job that touches
it is killed by an uncorrectable error.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, gpu_check
from gpudoctor.knowledge.explaining import MEMORY_WORN_OUT
from gpudoctor.knowledge.gpus.gpu_labels import label, reset


@gpu_check(
    "row-remap-pending",
    title="No memory row waits to be remapped",
    short="bad memory",
    follows=(*MEMORY_WORN_OUT, "gpu-recovery-action-needed"),
)
def row_remap_pending(gpu: Gpu, machine: Snapshot) -> Problems:
    rows = gpu.remapped_rows.value
    if rows.pending:
        yield Problem(
            severity="error",
            summary=f"{label(gpu)} has a memory row that waits for a reset to be remapped "
            f"({rows.correctable} correctable, {rows.uncorrectable} uncorrectable remaps counted)",
            meaning="A long job is likely to be killed when it touches that row.",
            evidence=(gpu.remapped_rows,),
            fix=Fix(
                "End what uses this GPU and reset it before the next job; a reboot does the same.",
                commands=(reset(gpu),),
            ),
        )
