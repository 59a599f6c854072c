"""A program beside nvidia-smi told of a failure in the same text: a container's runtime, modprobe, the kernel's log.

Why it matters: whoever pasted it asks why no training runs, and the line says so, whatever a table beside it shows.
Only of pasted text; on this machine the other checks look for themselves.
"""

from gpudoctor.check import Problem, Problems, Snapshot, check
from gpudoctor.knowledge.gpus import nvml_errors

MISMATCH = "driver-library-mismatch"


@check("failure-told", title="No program in the pasted text tells of a failure")
def failure_told(machine: Snapshot) -> Problems:
    troubles = machine.told_troubles
    if not troubles.value:
        return
    from gpudoctor.causes import CAUSES  # reads them all

    for trouble in troubles.value:
        cause = CAUSES.get(trouble.cause)
        if cause is None or (trouble.symptom == MISMATCH and _is_answered(machine)):
            continue
        yield Problem(
            severity="error",
            summary=trouble.seen,
            meaning=cause.meaning,
            evidence=(troubles,),
            fix=cause.remedy(trouble.variant if trouble.variant in cause.variants else "", **trouble.values),
        )


def _is_answered(machine: Snapshot) -> bool:
    """Of a mismatch in the kernel's log: nvidia-smi answers and so it is over, or says the same itself."""
    code = machine.nvidia.init_code.value_or(None)
    return bool(machine.nvidia.gpus.value_or(())) or code == nvml_errors.VERSION_MISMATCH
