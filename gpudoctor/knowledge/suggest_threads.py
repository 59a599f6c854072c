"""OMP_NUM_THREADS, where the threads of all ranks together would not find CPUs.

torchrun sets 1 where it is unset and starts several ranks, which is safe; nothing is said then. OpenMP counts the
CPUs of the affinity mask and knows no cgroup quota.
"""

import math
from collections.abc import Iterator

from gpudoctor.knowledge.advice import Suggestion
from gpudoctor.knowledge.job import job_gpu_count
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import Snapshot

NAME = "OMP_NUM_THREADS"
LOCAL_RANKS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")


def omp_threads(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """OMP_NUM_THREADS. Raises `NotRead`."""
    environment, mask = machine.environment.value, len(machine.host.cpus_allowed.value)
    quota = machine.host.cgroup.value.cpu_limit if machine.host.cgroup.missing_kind != "absent" else None
    launched = next((int(environment[name]) for name in LOCAL_RANKS if environment.get(name, "").isdecimal()), 0)
    ranks = max(1, launched or job_gpu_count(machine))
    cpus = min(mask, math.floor(quota)) if quota is not None else mask
    share = max(1, cpus // ranks)
    text = environment.get(NAME, "").strip()
    ours = f"{counted(cpus, 'CPU')} for {counted(ranks, 'rank')} are {counted(share, 'thread')} each."
    if text.isdecimal() and int(text) > 0:
        if int(text) <= share:
            return
        seen = f"{ranks} x {int(text)} threads would share {counted(cpus, 'CPU')}. {ours}"
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
