"""OMP_NUM_THREADS, where the threads of all ranks together would not find CPUs.

torchrun sets 1 where it is unset and starts several ranks, which is safe; nothing is said then. OpenMP counts the
CPUs of the affinity mask and knows no cgroup quota.
"""

import math
from collections.abc import Iterator, Mapping

from gpudoctor.knowledge.job import job_gpu_count
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.suggest.advice import Suggestion
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import Snapshot

NAME = "OMP_NUM_THREADS"
TORCHRUN = "LOCAL_WORLD_SIZE"
MPIRUN = "OMPI_COMM_WORLD_LOCAL_SIZE"
OTHER_LAUNCHERS = (MPIRUN, "SLURM_NTASKS_PER_NODE")
"""Ranks on this node, by launchers that leave the number of threads alone."""
CPUS_OF_A_TASK = "SLURM_CPUS_PER_TASK"
"""srun binds each task to so many; the batch script itself has all of the node's."""


def omp_threads(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """OMP_NUM_THREADS. Raises `NotRead`."""
    environment, mask = machine.environment.value, len(machine.host.cpus_allowed.value)
    cgroup = if_present(machine.host.cgroup)
    quota = cgroup.cpu_limit if cgroup else None
    launched = next((count for name in OTHER_LAUNCHERS if (count := _count(environment, name))), 0)
    ranks = max(1, launched or _count(environment, TORCHRUN) or job_gpu_count(machine))
    own = _count(environment, CPUS_OF_A_TASK)
    if launched and own and mask <= own:
        ranks = launched = 1  # srun bound this process to CPUs of its own
    elif _count(environment, MPIRUN) > 1 and mask < machine.host.cpus.value_or(0):
        return  # mpirun binds its ranks, by core or by NUMA node; how many share these CPUs is not told
    cpus = min(mask, math.floor(quota)) if quota is not None else mask
    share = max(1, cpus // ranks)
    threads = _count(environment, NAME)
    ours = f"{counted(cpus, 'CPU')} for {counted(ranks, 'rank')} are {counted(share, 'thread')} each."
    if threads:
        if threads <= share:
            return
        seen = f"{ranks} x {threads} threads would share {counted(cpus, 'CPU')}. {ours}"
    elif quota is not None and cpus < mask:
        seen = f"The cgroup grants {quota:g} CPUs' time, which OpenMP does not see: it starts {mask} threads. {ours}"
    elif launched > 1:
        seen = f"It is not set, so each of {counted(ranks, 'rank')} would start {counted(mask, 'thread')}. {ours}"
    else:
        return
    yield Suggestion(
        NAME,
        str(share),
        seen,
        "every PyTorch version",
        "torch.get_num_threads() says so in each rank",
    )


def _count(environment: Mapping[str, str], name: str) -> int:
    """A variable that holds a number; 0 when it is unset, or holds what no number of threads or ranks is."""
    text = environment.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
