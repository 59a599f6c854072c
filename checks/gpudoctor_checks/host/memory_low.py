"""The machine has little memory left for another job.

Why it matters: every rank holds a few GiB of host memory before the model is loaded. Without it the machine swaps,
or the kernel kills the largest process, which is the training job.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.wording import GIB, counted, size

# Our rule of thumb: a process that imported torch and opened a CUDA context holds 2 to 3 GiB of host memory.
WANTED_PER_GPU = 2 * GIB
# Without GPUs: less than a twentieth, as for disks (imbue), and less than 1 GiB.
LEAST_SHARE, LEAST = 0.05, 1 * GIB


@check("memory-low", title="The machine has memory left for a job")
def memory_low(machine: Snapshot) -> Problems:
    available, total, gpus = machine.host.memory_available_bytes, machine.host.memory_total_bytes, gpu_count(machine)
    wanted = gpus * WANTED_PER_GPU if gpus else int(min(LEAST, total.value * LEAST_SHARE))
    if available.value < wanted:
        whom = f"ranks on {counted(gpus, 'GPU')} want {size(wanted)}" if gpus else f"{size(wanted)} are wanted"
        yield Problem(
            severity="warning",
            summary=f"{size(available.value)} of {size(total.value)} of memory are available; {whom}",
            meaning="The job starts to swap, or the kernel kills it (exit status 137).",
            evidence=(available, total),
            fix=Fix("Find what holds the memory.", commands=(command("ps -eo rss,pid,user,args --sort=-rss | head"),)),
        )
