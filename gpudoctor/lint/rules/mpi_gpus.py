"""Rules of ranks that mpirun, horovodrun and jsrun place on GPUs: M07, M08."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import processes
from gpudoctor.lint.allocation import whole as number
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.understood import whole


@rule(
    "M07",
    title="A resource set has a GPU for each of its ranks",
    source="jsrun(1): -a tasks share the -g GPUs of their resource set; NCCL's init.cc: Duplicate GPU detected",
    leads_to=("duplicate-gpu",),
    bad=(
        "#!/bin/bash\n#BSUB -nnodes 2\njsrun -n 2 -a 6 -g 1 -c 42 python train.py\n",
        "jsrun --nrs 4 --tasks_per_rs 4 --gpu_per_rs 2 --cpu_per_rs 20 python train.py\n",
    ),
    good=(
        "#!/bin/bash\n#BSUB -nnodes 2\njsrun -n 12 -a 1 -g 1 -c 7 python train.py\n",
        "#!/bin/bash\n#BSUB -nnodes 2\njsrun -n 2 -a 6 -g 6 -c 42 python train.py\n",
        "#!/bin/bash\n#BSUB -nnodes 2\njsrun -n 2 -a 6 -g 0 -c 42 python train.py --backend gloo\n",
    ),
)
def ranks_share_a_resource_sets_gpu(job: LintJob) -> Iterator[LintFinding]:
    """The ranks of a resource set see its GPUs alone. With more ranks than GPUs two take the same one, and NCCL
    refuses."""
    for launch in job.launches:
        tasks, gpus = whole(launch.option("tasks-per-rs")), whole(launch.option("gpu-per-rs"))
        option = launch.option("gpu-per-rs")
        if launch.launcher != "jsrun" or option is None or not tasks or not gpus or tasks <= gpus:
            continue
        if processes.on_cpu(launch):
            continue
        yield LintFinding(
            span=option.span,
            summary=f"a resource set has {counted(tasks, 'rank')} and {counted(gpus, 'GPU')}",
            happens="Ranks of a set take the same GPU: NCCL ends with 'Duplicate GPU detected', or a local rank finds"
            " no device.",
            fix=f"Give each rank a set of its own: -a 1 -g 1, and -n {tasks} times as many; or -g {tasks}.",
        )


_SLOTS = lazy_re(r"[\w.)}`-]+:(\d{1,4})\b", re.ASCII)


@rule(
    "M08",
    title="A host has a GPU for each of its slots",
    needs="facts",
    source="horovod#1755: local_rank() indexes the GPUs of the host; mpirun(1): host:N are N processes there",
    bad=(
        Example("horovodrun -np 4 -H localhost:4 python train.py\n", "gpus_per_node=2"),
        Example("mpirun -np 16 -H n01:8,n02:8 --bind-to none -x PATH python train_hvd.py\n", "gpus_per_node=4"),
    ),
    good=(
        Example("horovodrun -np 4 -H localhost:4 python train.py\n", "gpus_per_node=4"),
        Example("horovodrun -np 8 -H n01:4,n02:4 python train.py\n", "gpus_per_node=4"),
        Example("mpirun -np 8 -H n01:8 --bind-to none python train.py --backend gloo\n", "gpus_per_node=4"),
    ),
)
def more_slots_than_gpus(job: LintJob) -> Iterator[LintFinding]:
    """A rank takes the GPU of its local rank; one beyond the host's last GPU finds none."""
    for launch in job.launches:
        option = launch.option("host", "hosts") if launch.launcher in ("horovodrun", "mpirun") else None
        total, limit = whole(launch.option("np")), processes.gpus(job, launch)
        if option is None or option.value is None or not limit:
            continue
        most = max((number(match[1]) or 0 for match in _SLOTS.finditer(option.value.shown)), default=0)
        most = min(most, total) if total else most
        if most <= limit or processes.on_cpu(launch) or launch.option("map-by", "npernode", "pernode"):
            continue
        yield LintFinding(
            span=option.span,
            summary=f"{option.written} {option.value.shown} starts {counted(most, 'rank')} on a host, which has"
            f" {counted(limit, 'GPU')}",
            happens="The local ranks beyond find no GPU: invalid device ordinal, or list index out of range.",
            fix=f"Write {limit} slots for it, and -np to match; other hosts make more ranks.",
        )
