"""A GPU's SRAM has had more uncorrectable errors than NVIDIA tolerates.

Why it matters: SRAM (caches, registers) cannot be remapped like DRAM. Past the driver's threshold the GPU is a
candidate for replacement, and jobs on it die with ECC errors.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label


@gpu_check(
    "sram-errors-over-threshold",
    title="SRAM errors are below the driver's threshold",
    short="bad memory: replace",
    follows=("row-remap-failed",),
)
def sram_errors_over_threshold(gpu: Gpu, machine: Snapshot) -> Problems:
    # The threshold is the driver's own (nvmlDeviceGetSramEccErrorStatus, bThresholdExceeded).
    if gpu.sram_threshold_exceeded.value:
        yield Problem(
            severity="warning",
            summary=f"{label(gpu)} has exceeded the driver's threshold of uncorrectable SRAM errors",
            meaning="Jobs on this GPU are likely to be killed by ECC errors; a reset does not cure it.",
            evidence=(gpu.sram_threshold_exceeded,),
            fix=Fix.of(
                "Take the GPU out of service and have it replaced; the vendor asks for the output of the first line.",
                command("nvidia-smi -q -i {:number} -d ECC", gpu.index),
                command("sudo nvidia-bug-report.sh"),
            ),
        )
