"""A GPU has retired so many memory pages that it should be replaced.

Why it matters: GPUs before Ampere can retire 64 pages in their life. A GPU near that number has failing memory, and
after the last spare entry each further error kills a job.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.gpus.gpu_labels import label

TOTAL = 63  # DCGM_LIMIT_MAX_RETIRED_PAGES of DCGM's dcgm_gpu_hardware_limits.h
DOUBLE_BIT = 15  # DCGM_LIMIT_MAX_RETIRED_PAGES_SOFT_LIMIT: more than this, for double-bit errors


@gpu_check(
    "retired-pages-many",
    title="Few memory pages have been retired",
    short="bad memory: replace",
    follows=("row-remap-failed",),
)
def retired_pages_many(gpu: Gpu, machine: Snapshot) -> Problems:
    pages = gpu.retired_pages.value
    total = pages.single_bit + pages.double_bit
    if total >= TOTAL or pages.double_bit > DOUBLE_BIT:
        yield Problem(
            severity="error" if total >= TOTAL else "warning",
            summary=f"{label(gpu)} has retired {total} memory pages, {pages.double_bit} of them for double-bit errors; "
            f"the limits are {TOTAL} and {DOUBLE_BIT}",
            meaning="The memory of this GPU is wearing out: jobs on it are killed by uncorrectable errors more and "
            "more often.",
            evidence=(gpu.retired_pages,),
            fix=Fix.of(
                "Have the GPU replaced; the vendor asks for the list of retired pages.",
                command("nvidia-smi -q -i {:number} -d PAGE_RETIREMENT", gpu.index),
                command("sudo nvidia-bug-report.sh"),
            ),
        )
