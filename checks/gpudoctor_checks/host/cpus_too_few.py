"""This shell may use few of the machine's CPUs for the GPUs it starts jobs on.

Why it matters: child processes inherit the CPU affinity of the shell or the job step. With all ranks pinned to one
or two cores they take turns, and the GPUs idle. SLURM without --cpus-per-task, MPI's default binding and taskset
cause it.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import job_gpu_count
from gpudoctor.knowledge.wording import counted, ranges

NEEDED_PER_GPU = 2  # the thread that launches kernels, and one loader worker


@check("cpus-too-few", title="Every GPU has CPUs to feed it")
def cpus_too_few(machine: Snapshot) -> Problems:
    gpus, allowed, online = job_gpu_count(machine), machine.host.cpus_allowed, machine.host.cpus
    needed = gpus * NEEDED_PER_GPU
    if len(allowed.value) >= needed:
        return
    have, pinned = len(allowed.value), len(allowed.value) < online.value
    yield Problem(
        # A small machine has the CPUs it has; a mask over a large one is a setting gone wrong.
        severity="warning" if pinned else "info",
        summary=f"{counted(have, 'CPU')} ({ranges(allowed.value)}) of {online.value} may be used for "
        f"{counted(gpus, 'GPU')}; {needed} or more are wanted",
        meaning="Ranks and loader workers take turns on these CPUs while the GPUs wait.",
        evidence=(allowed, online),
        fix=_wider(machine) if pinned else Fix("Use a machine with more CPUs, or decode data on the GPU."),
    )


def _wider(machine: Snapshot) -> Fix:
    if "SLURM_JOB_ID" in machine.environment.value_or({}):
        return Fix(
            "Ask SLURM for CPUs and let ranks use them all: `--cpus-per-task` in the job's script, and `srun "
            "--cpu-bind=none` (or `--cpus-per-gpu`)."
        )
    return Fix(
        "Widen this shell's affinity before starting the job; a container's cpuset is set with `--cpuset-cpus`, and "
        "mpirun takes `--bind-to none`.",
        commands=(command("taskset -pc 0-{:number} $$", machine.host.cpus.value - 1),),
    )
