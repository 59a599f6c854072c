"""The container's or job's CPU quota is small for its GPUs.

Why it matters: a rank needs one CPU to feed its GPU and more for its data loader. Over its quota the kernel stops
every thread of the cgroup for the rest of each 100 ms, and all GPUs wait together.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.job import job_gpu_count
from gpudoctor.knowledge.wording import counted

NEEDED_PER_GPU = 2  # the thread that launches kernels, and one loader worker
USUAL_PER_GPU = 4  # the smallest machines with a GPU that clouds sell (AWS g4dn.xlarge, GCP g2-standard-4)


@check("cgroup-cpu-limit-low", title="The cgroup's CPU quota feeds every GPU")
def cgroup_cpu_limit_low(machine: Snapshot) -> Problems:
    cgroup, gpus = machine.host.cgroup, job_gpu_count(machine)
    limit = cgroup.value.cpu_limit
    if limit is not None and limit < gpus * USUAL_PER_GPU:
        yield Problem(
            severity="warning" if limit < gpus * NEEDED_PER_GPU else "info",
            summary=f"The cgroup may use {limit:g} CPUs; {counted(gpus, 'GPU')} want {gpus * USUAL_PER_GPU}",
            meaning="Ranks and loader workers are stopped in every 100 ms, and GPU utilisation drops.",
            evidence=(cgroup,),
            fix=Fix(
                f"Ask for {gpus * USUAL_PER_GPU} CPUs or more where the quota is set: `--cpus` (docker, podman), "
                f"resources.limits.cpu (Kubernetes), CPUQuota= (systemd)."
            ),
        )
