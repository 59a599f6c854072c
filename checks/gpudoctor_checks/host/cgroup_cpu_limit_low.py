"""The container's or job's CPU quota is small for its ranks.

Why it matters: a rank needs one CPU to feed its GPU and more for its data loader; without a GPU it computes on them.
Over its quota the kernel stops every thread of the cgroup for the rest of each 100 ms, and all GPUs wait together.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.job import job_gpu_count, launched_ranks
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import counted

NEEDED_PER_GPU = 2  # the thread that launches kernels, and one loader worker
USUAL_PER_GPU = 4  # the smallest machines with a GPU that clouds sell (AWS g4dn.xlarge, GCP g2-standard-4)


@check("cgroup-cpu-limit-low", title="The cgroup's CPU quota feeds every rank")
def cgroup_cpu_limit_low(machine: Snapshot) -> Problems:
    cgroup = machine.host.cgroup
    limit = cgroup.value.cpu_limit
    if limit is None:
        return
    gpus = job_gpu_count(machine) if if_present(machine.nvidia.gpus) else 0
    launched = launched_ranks(machine.environment.value_or({}))
    wanted = gpus * USUAL_PER_GPU or max(1, launched)
    if limit >= wanted:
        return
    ranks = counted(gpus, "GPU") if gpus else counted(max(1, launched), "rank")
    yield Problem(
        # Nobody has said that a machine without GPUs is to train.
        severity="warning" if limit < gpus * NEEDED_PER_GPU or (launched and not gpus) else "info",
        summary=f"The cgroup may use {limit:g} CPUs; {ranks} {'want' if gpus + launched > 1 else 'wants'} {wanted}",
        meaning="Ranks and loader workers are stopped in every 100 ms, and "
        + ("GPU utilisation drops." if gpus else "each step takes as much longer."),
        evidence=(cgroup,),
        fix=Fix(
            f"Ask for {counted(wanted, 'CPU')} or more where the quota is set: `--cpus` (docker, podman), "
            f"resources.limits.cpu (Kubernetes), CPUQuota= (systemd)."
        ),
    )
