"""Shared memory (/dev/shm) is too small for the number of GPUs.

Why it matters: data-loader workers pass batches, and NCCL passes data between the GPUs of one machine, through
/dev/shm. A container gets 64 MiB of it unless told otherwise, and the job dies with "Bus error" or "No space left
on device", often only after the first epoch.
"""

from gpudoctor.causes.shm_too_small import CAUSE
from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.wording import GIB, MIB, counted, size

DOCKER_DEFAULT = 64 * MIB  # what `docker run` gives without --shm-size
WANTED_PER_GPU = 1 * GIB  # NCCL's documentation asks containers for --shm-size=1g; per GPU is our rule of thumb
WANTED_FREE = 512 * MIB  # ds_report of DeepSpeed warns below it


@check("shm-too-small", title="/dev/shm has room for data loaders and NCCL")
def shm_too_small(machine: Snapshot) -> Problems:
    shm, gpus = machine.host.shared_memory, gpu_count(machine)
    total, free = shm.value.total_bytes, shm.value.free_bytes
    wanted = max(1, gpus) * WANTED_PER_GPU
    if total < wanted:
        severity: Severity = "error" if total <= DOCKER_DEFAULT else "warning"
        yield Problem(
            # Without a GPU nothing here trains over NCCL, and 64 MiB is every container's default.
            severity=severity if gpus else "info",
            summary=f"/dev/shm is {size(total)}; "
            + (f"{counted(gpus, 'GPU')} want {size(wanted)}" if gpus else f"data loaders want {size(wanted)}"),
            meaning='Data loaders with workers and NCCL die with "Bus error" or "No space left on device".',
            evidence=(shm,),
            fix=_larger(machine, wanted),
        )
    elif free < WANTED_FREE and gpus:
        yield Problem(
            severity="warning",
            summary=f"/dev/shm has {size(free)} free of {size(total)}; {size(WANTED_FREE)} are wanted",
            meaning='The next batch or NCCL buffer that does not fit ends the job with "Bus error".',
            evidence=(shm,),
            fix=Fix("Look for what an ended job left behind, and remove it.", commands=(command("ls -lhS /dev/shm"),)),
        )


def _larger(machine: Snapshot, wanted: int) -> Fix:
    amount = wanted // GIB
    if machine.host.container.value_or("none") != "none":
        return Fix(CAUSE.fix_for("container").text.format(wanted=amount))
    return CAUSE.remedy("host", command("sudo mount -o remount,size={:number}G /dev/shm", amount))
