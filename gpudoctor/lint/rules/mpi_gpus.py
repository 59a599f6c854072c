"""Rules of ranks that mpirun, horovodrun and jsrun place on GPUs: M07, M08, M18 to M20."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import processes
from gpudoctor.lint.allocation import whole as number
from gpudoctor.lint.model import LintJob, Span
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


_MPIJOB = (
    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {{name: t}}\nspec:\n  slotsPerWorker: {}\n"
    "  mpiReplicaSpecs:\n    Launcher:\n      replicas: 1\n      template:\n        spec:\n          containers:\n"
    "          - {{name: l, image: a, command: [mpirun, -bind-to, none, {}]}}\n    Worker:\n      replicas: 2\n"
    "      template:\n        spec:\n          containers:\n          - name: w\n            image: a\n"
    "            resources: {{limits: {{nvidia.com/gpu: 4}}}}\n            volumeMounts:"
    " [{{name: m, mountPath: /dev/shm}}]\n"
    "          volumes: [{{name: m, emptyDir: {{medium: Memory}}}}]\n"
)


@rule(
    "M18",
    title="A worker of an MPIJob has as many slots as GPUs",
    severity="warning",
    source="mpi-operator, MPIJobSpec: slotsPerWorker (1 by default) is what its hostfile says, which mpirun fills",
    bad=(_MPIJOB.format(1, "python, train.py"), _MPIJOB.format(2, "-np, '4', python, train.py")),
    good=(_MPIJOB.format(4, "python, train.py"), _MPIJOB.format(1, "torchrun, --nproc_per_node=4, train.py")),
)
def fewer_slots_than_gpus(job: LintJob) -> Iterator[LintFinding]:
    """mpirun starts a rank for each slot. GPUs of a worker beyond these have none."""
    launch = next((each for each in job.launches if each.launcher == "mpirun" and each.invocation.manifest_path), None)
    for manifest in job.manifests if launch is not None else ():
        by_path = {value.path: value for value in manifest.values}
        slots, specs = by_path.get(("spec", "slotsPerWorker")), ("spec", "mpiReplicaSpecs", "Worker")
        limits = (*specs, "template", "spec", "containers", "0", "resources", "limits")
        given = next((value for path, value in by_path.items() if path[:-1] == limits and "gpu" in path[-1]), None)
        gpus, each = (number(given.value) if given is not None else None), number(slots.value) if slots else 1
        if manifest.kind != "MPIJob" or launch is None or given is None or not gpus or not each or gpus <= each:
            continue
        workers = number(by_path[(*specs, "replicas")].value) if (*specs, "replicas") in by_path else None
        ranks = whole(launch.option("np", "n"))
        if (ranks is None or ranks == each * (workers or 0)) and launch.option("map-by", "npernode", "host") is None:
            yield LintFinding(
                span=(slots or given).span,
                summary=f"a worker has {counted(gpus, 'GPU')} and {counted(each, 'slot')}: mpirun starts"
                f" {counted(each, 'rank')} there",
                happens=f"{counted(gpus - each, 'GPU')} of each worker {'does' if gpus - each == 1 else 'do'} nothing.",
                fix=f"Write slotsPerWorker: {gpus}.",
            )


_SELECT = lazy_re(r"^#PBS[ \t]+-l[ \t]+select=(\d+):(\S*ngpus=\d+\S*)", re.MULTILINE)
_PBS = "#!/bin/bash\n#PBS -l select=2:ncpus=32:ngpus=4{}\nexport MASTER_ADDR=$(head -n 1 $PBS_NODEFILE)\n"


@rule(
    "M19",
    title="A chunk of PBS has as many places for MPI as ranks are started on it",
    severity="warning",
    source="PBS Professional, pbs_resources(7B): mpiprocs is 1 in each chunk by default; mpirun(1) of Open MPI: slots",
    bad=(
        _PBS.format("") + "mpirun -np 8 --bind-to none python train_hvd.py\n",
        _PBS.format(":mem=200gb") + "mpirun -n 4 --bind-to none python train_hvd.py\n",
    ),
    good=(
        _PBS.format(":mpiprocs=4") + "mpirun -np 8 --bind-to none python train_hvd.py\n",
        _PBS.format("") + "mpirun -np 2 --bind-to none python train_hvd.py\n",
        _PBS.format("") + "mpirun -np 8 --oversubscribe --bind-to none python train_hvd.py\n",
    ),
)
def chunks_without_places(job: LintJob) -> Iterator[LintFinding]:
    """Open MPI takes its slots from PBS: one for each line of the node file, of which a chunk has mpiprocs."""
    match = _SELECT.search(job.text)
    if match is None or "mpiprocs" in match[0] or "+" in match[2]:
        return
    told = ("host", "hostfile", "machinefile", "oversubscribe", "map-by", "npernode", "ppn", "ppr")
    chunks = int(match[1])
    for launch in job.launches:
        inside = next((each for each in (launch, *launch.around) if each.launcher == "mpirun"), None)
        ranks = whole(inside.option("np", "n")) if inside is not None else None
        if inside is None or ranks is None or ranks <= chunks or inside.option(*told) is not None:
            continue
        yield LintFinding(
            span=Span(match.start(), match.end(), job.text.count("\n", 0, match.start()) + 1),
            summary=f"{counted(chunks, 'chunk')} without mpiprocs {'is' if chunks == 1 else 'are'}"
            f" {counted(chunks, 'slot')}, and mpirun starts {ranks} ranks",
            happens="There are not enough slots available in the system (Open MPI); others fill the nodes in turn.",
            fix=f"Write mpiprocs={max(1, ranks // chunks)} into select=.",
        )
        return


_OF_RANKS = lazy_re(
    r"OMPI_COMM_WORLD_\w+|OMPI_(?:UNIVERSE_SIZE|COMM_\w+)|PMI_(?:RANK|SIZE)|PMIX_RANK|MV2_COMM_WORLD_\w+"
)


@rule(
    "M20",
    title="What MPI tells a rank is read by the rank",
    source="mpirun(1): OMPI_COMM_WORLD_RANK and its likes are set for the processes that it starts",
    leads_to=("launcher-world-mismatch",),
    bad=(
        "mpirun -np 8 -H a:4,b:4 --bind-to none -x MASTER_ADDR=a -x RANK=$OMPI_COMM_WORLD_RANK python train.py\n",
        "export RANK=$OMPI_COMM_WORLD_RANK\nmpirun -np 4 --bind-to none -x RANK python train.py\n",
    ),
    good=(
        "mpirun -np 4 --bind-to none bash -c 'RANK=$OMPI_COMM_WORLD_RANK python train.py'\n",
        "mpirun -np 4 --bind-to none ./each.sh\n#@ file each.sh\nexport RANK=$OMPI_COMM_WORLD_RANK\npython train.py\n",
    ),
)
def rank_read_before_there_is_one(job: LintJob) -> Iterator[LintFinding]:
    """The shell that calls mpirun is no rank: the variable is empty there, and the same for all."""
    for launch in job.launches:
        outer = next((each for each in launch.invocation.within if each.program in ("mpirun", "mpiexec")), None)
        if outer is None:
            continue
        handed = (
            setting.word for name, setting in outer.settings.items() if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")
        )
        for word in (*outer.words[: len(outer.words) - len(launch.script_words)], *handed):
            read = next((each for each in word.expansions if _OF_RANKS.fullmatch(each.name)), None)
            if read is not None and read.where != "task" and read.name not in job.facts.variables:
                yield LintFinding(
                    span=word.span,
                    summary=f"${read.name} is read by the shell that calls {outer.program}, where it is not set",
                    happens="Every rank gets an empty value, the same for all.",
                    fix=f"Let each rank read it: {outer.program} bash -c 'RANK=$OMPI_COMM_WORLD_RANK python ...'.",
                )
                return
