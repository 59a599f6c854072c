"""Shared memory (/dev/shm) is too small for the number of GPUs.

Why it matters: data-loader workers pass batches, and NCCL passes data between the GPUs of one machine, through
/dev/shm. A container gets 64 MiB of it unless told otherwise, and the job dies with "Bus error" or "No space left
on device", often only after the first epoch.
"""

from collections.abc import Iterator

from gpudoctor.check import Fix, Problem, check
from gpudoctor.snapshot import Snapshot

MIB = 1024**2
GIB = 1024**3
DOCKER_DEFAULT = 64 * MIB  # what `docker run` gives without --shm-size
WANTED_PER_GPU = 1 * GIB  # NCCL's documentation asks containers for --shm-size=1g; per GPU is our rule of thumb


@check("shm-too-small", title="/dev/shm has room for data loaders and NCCL")
def shm_too_small(machine: Snapshot) -> Iterator[Problem]:
    shm, gpus = machine.host.shared_memory, machine.nvidia.gpus
    size, wanted = shm.value.total_bytes, max(1, len(gpus.value)) * WANTED_PER_GPU
    if size < wanted:
        yield Problem(
            severity="error" if size <= DOCKER_DEFAULT else "warning",
            summary=f"/dev/shm is {size / GIB:.2f} GiB; {len(gpus.value)} GPUs want {wanted // GIB} GiB",
            meaning='Data loaders with workers and NCCL die with "Bus error" or "No space left on device".',
            evidence=(shm,),
            fix=Fix(
                "Give the container more shared memory, or the host's; on a host, remount it larger.",
                commands=(
                    f"docker run --shm-size={wanted // GIB}g ...",
                    f"sudo mount -o remount,size={wanted // GIB}G /dev/shm",
                ),
            ),
        )
