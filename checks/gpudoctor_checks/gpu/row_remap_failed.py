"""A GPU could not replace a faulty row of its memory.

Why it matters: the spare rows of a memory bank are used up, or one of them is faulty itself. The bad row stays in use,
and jobs that touch it are killed by uncorrectable errors.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label


@gpu_check("row-remap-failed", title="Faulty memory rows could be remapped", short="bad memory: replace")
def row_remap_failed(gpu: Gpu, machine: Snapshot) -> Problems:
    rows = gpu.remapped_rows.value
    if rows.failed:
        yield Problem(
            severity="error",
            summary=f"{label(gpu)} failed to remap a faulty memory row "
            f"({rows.uncorrectable} rows were remapped for uncorrectable errors before)",
            meaning="The faulty row stays in use: jobs on this GPU are killed by uncorrectable ECC errors.",
            evidence=(gpu.remapped_rows,),
            fix=Fix.of(
                "Take the GPU out of service and have it replaced: NVIDIA's memory error management counts a failed "
                "remap as a reason for return.",
                command("nvidia-smi -q -i {:number} -d ROW_REMAPPER", gpu.index),
                command("sudo nvidia-bug-report.sh"),
            ),
        )
