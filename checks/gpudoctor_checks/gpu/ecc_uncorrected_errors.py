"""A GPU has met memory errors that ECC could not correct since the driver was loaded.

Why it matters: the process that hit the error was killed (Xid 48, 94 or 95). Until the GPU is reset, its faulty memory
may still be in use, and the next job can die the same way or, with containment off, compute with wrong data.
"""

from gpudoctor.check import Fix, Gpu, Problem, Problems, Snapshot, command, gpu_check
from gpudoctor.knowledge.explaining import MEMORY_WAITS_FOR_RESET
from gpudoctor.knowledge.gpus.gpu_labels import label, reset


@gpu_check(
    "ecc-uncorrected-errors",
    title="No uncorrected memory errors since the driver was loaded",
    short="bad memory",
    follows=MEMORY_WAITS_FOR_RESET,
)
def ecc_uncorrected_errors(gpu: Gpu, machine: Snapshot) -> Problems:
    # Any at all, as gcm has it. Only the volatile counter: the aggregate one remembers errors that a reset has dealt
    # with.
    count = gpu.ecc_volatile.value.uncorrected
    if count > 0:
        yield Problem(
            severity="error",
            summary=f"{label(gpu)} counts {count} uncorrected ECC errors since the driver was loaded; none are "
            f"expected",
            meaning="A job on this GPU was killed by it or will be, and its last results are not to be trusted.",
            evidence=(gpu.ecc_volatile,),
            fix=Fix.of(
                "End what uses this GPU and reset it, which retires or remaps the faulty memory. When errors come "
                "back, have the GPU replaced.",
                reset(gpu),
                command("nvidia-smi -q -i {:number} -d ECC,ROW_REMAPPER,PAGE_RETIREMENT", gpu.index),
            ),
        )
