"""Few more processes or threads may be started here.

Why it matters: ranks, their data-loader workers and the threads of CUDA, NCCL and OpenMP all count against the
cgroup's pids limit and the user's RLIMIT_NPROC. At the limit the job dies with "can't start new thread" or
"Resource temporarily unavailable".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import counted

# Our rule of thumb: a rank, eight loader workers with their feeder threads, and the threads of CUDA, NCCL and
# autograd. Kubernetes' and podman's usual limits (1024 to 4096) pass on a machine with eight GPUs.
WANTED_PER_GPU = 96


@check("process-limit-low", title="Ranks and their workers may start threads")
def process_limit_low(machine: Snapshot) -> Problems:
    gpus = gpu_count(machine)
    wanted = max(1, gpus) * WANTED_PER_GPU
    whom = counted(gpus, "GPU") + (" wants" if gpus == 1 else " want") if gpus else "one rank with workers wants"
    limits = if_present(machine.host.limits)
    soft = limits.processes_soft if limits else None
    # The kernel does not apply RLIMIT_NPROC to root.
    if soft is not None and soft < wanted and not machine.host.is_root.value:
        yield Problem(
            severity="warning",
            summary=f"This user may have {soft} processes and threads; {whom} {wanted}",
            meaning="""The job dies with "can't start new thread" when its workers start.""",
            evidence=(machine.host.limits,),
            fix=Fix(
                "Raise it in the shell or script that starts the job; above the hard limit, raise nproc in "
                "/etc/security/limits.conf.",
                commands=(command("ulimit -u {:number}", wanted),),
            ),
        )
    cgroup = if_present(machine.host.cgroup)
    if cgroup is None or cgroup.pids_limit is None:
        return
    left = cgroup.pids_limit - (cgroup.pids_used or 0)
    if left < wanted:
        used = "" if cgroup.pids_used is None else f" and holds {cgroup.pids_used}"
        yield Problem(
            severity="warning",
            summary=f"The cgroup allows {cgroup.pids_limit} processes and threads{used}; {whom} {wanted} more",
            meaning="""The job dies with "can't start new thread" when its workers start.""",
            evidence=(machine.host.cgroup,),
            fix=Fix(
                "Raise the limit where the container or slice is defined: `--pids-limit=-1` (docker, podman), "
                "podPidsLimit of the kubelet, TasksMax= of a systemd unit or slice."
            ),
        )
