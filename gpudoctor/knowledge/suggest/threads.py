"""OMP_NUM_THREADS, where the threads of all ranks together would not find CPUs.

torchrun sets 1 where it is unset and starts several ranks, which is safe; nothing is said then. OpenMP counts the
CPUs of the affinity mask and knows no cgroup quota.
"""

import math
from collections.abc import Iterator

from gpudoctor.knowledge.job import MPIRUN, OTHER_LAUNCHERS, job_gpu_count, launched_ranks, number_of
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.suggest.advice import Suggestion
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import Snapshot

NAME = "OMP_NUM_THREADS"
CPUS_OF_A_TASK = "SLURM_CPUS_PER_TASK"
"""srun binds each task to so many; the batch script itself has all of the node's."""


def omp_threads(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """OMP_NUM_THREADS. Raises `NotRead`."""
    environment, mask = machine.environment.value, len(machine.host.cpus_allowed.value)
    cgroup = if_present(machine.host.cgroup)
    quota = cgroup.cpu_limit if cgroup else None
    launched = next((count for name in OTHER_LAUNCHERS if (count := number_of(environment, name))), 0)
    ranks = max(1, launched_ranks(environment) or job_gpu_count(machine))
    own = number_of(environment, CPUS_OF_A_TASK)
    if launched and own and mask <= own:
        ranks = launched = 1  # srun bound this process to CPUs of its own
    elif number_of(environment, MPIRUN) > 1 and mask < machine.host.cpus.value_or(0):
        return  # mpirun binds its ranks, by core or by NUMA node; how many share these CPUs is not told
    cpus = min(mask, math.floor(quota)) if quota is not None else mask
    share = max(1, cpus // ranks)
    threads = number_of(environment, NAME)
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
