"""The container's or job's memory limit is used up, or small for its GPUs.

Why it matters: the kernel kills the largest process of a cgroup that passes its limit, whatever memory the machine
still has. A rank then ends with "Killed" or exit status 137, and the others wait for it until their time-out.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import job_gpu_count, launched_ranks
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import GIB, counted, size

# Our rule of thumb: a process that imported torch and opened a CUDA context holds 2 to 3 GiB of host memory, and
# its data-loader workers come on top. A model or a data set is not in it yet.
WANTED_PER_GPU = 4 * GIB
WANTED_ON_CPU = GIB
"""As much for torch's import, a rank's own and one loader worker."""
NEARLY_FULL = 0.95  # gpud calls file handles and PIDs critical at the same share


@check("cgroup-memory-limit-low", title="The cgroup's memory limit leaves room for the ranks")
def cgroup_memory_limit_low(machine: Snapshot) -> Problems:
    cgroup = machine.host.cgroup
    limit, used = cgroup.value.memory_limit_bytes, cgroup.value.memory_used_bytes
    if limit is None:
        return
    fix = Fix(
        "Ask for more memory where the limit is set: `--memory` (docker, podman), resources.limits.memory "
        "(Kubernetes), `--mem` (SLURM)."
    )
    if used is not None and used > limit * NEARLY_FULL:
        yield Problem(
            severity="warning",
            summary=f"The cgroup uses {size(used)} of its {size(limit)} of memory, page cache not counted",
            meaning="The next allocation of a few percent gets a process killed (exit status 137).",
            evidence=(cgroup,),
            fix=Fix(
                "End what holds the memory, or raise the limit where it is set.",
                commands=(command("ps -eo rss,pid,user,args --sort=-rss | head"),),
            ),
        )
    gpus = job_gpu_count(machine) if if_present(machine.nvidia.gpus) else 0
    launched = launched_ranks(machine.environment.value_or({}))
    ranks = gpus or max(1, launched)
    wanted = gpus * WANTED_PER_GPU or ranks * WANTED_ON_CPU
    if limit < wanted:
        yield Problem(
            # Nobody has said that a machine without GPUs is to train.
            severity="warning" if gpus or launched else "info",
            summary=f"The cgroup's memory limit is {size(limit)}; {counted(ranks, 'rank')} "
            f"{'want' if ranks > 1 else 'wants'} {size(wanted)}",
            meaning="Ranks are killed while they import torch or load the checkpoint (exit status 137).",
            evidence=(cgroup,),
            fix=fix,
        )
