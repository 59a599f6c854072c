"""Rules of one count: what MPI starts, what each of these starts, and what they are told of it. M15, M16, H10."""

from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import headers, look, processes
from gpudoctor.lint.allocation import resolved, whole as number
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.understood import whole

_PBS = "#!/bin/bash\n#PBS -l select=4:ncpus=32:ngpus=4\n#PBS -l walltime=02:00:00\ncd $PBS_O_WORKDIR\n"
_HEAD = "HEAD=$(head -n1 $PBS_NODEFILE)\n"
_RUN = (
    "mpiexec -n 4 --ppn 1 torchrun --nnodes={} --nproc-per-node={} --rdzv-id=7 --rdzv-backend=c10d"
    " --rdzv-endpoint=$HEAD:29400 train.py\n"
)
_LSF = (
    '#!/bin/bash\n#BSUB -n 4\n#BSUB -R "span[ptile=1]"\n#BSUB -gpu "num=4"\n#BSUB -W 60\n'
    "HEAD=$(sort -u $LSB_DJOB_HOSTFILE | head -n1)\n"
)
_HANDED = (
    "export MASTER_ADDR=n01 MASTER_PORT=29400\nmpirun -np 8 -H n01:4,n02:4 -x MASTER_ADDR -x WORLD_SIZE={}"
    " bash -c 'RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK python train.py'\n"
)
_SUMMIT = (
    "#!/bin/bash\n#BSUB -nnodes 2\njsrun -n {} -a 1 -c 7 -g {} torchrun --standalone --nproc-per-node=6 train.py\n"
)
_OF_A_TASK = lazy_re(r"\$\{?(?:OMPI_COMM_WORLD_RANK|PMIX?_RANK|PALS_RANKID|MV2_COMM_WORLD_RANK)\b")


@rule(
    "M15",
    title="As many launchers start as the rendezvous waits for",
    source="mpirun(1): -np is how many times the command starts; torch/distributed/run.py: --nnodes agents meet",
    leads_to=("rendezvous-incomplete",),
    bad=(_PBS + _HEAD + _RUN.format(8, 4), _PBS + _HEAD + _RUN.format(2, 1)),
    good=(_PBS + _HEAD + _RUN.format(4, 4), _PBS + _HEAD + _RUN.format("1:4", 4)),
)
def launchers_and_nodes_differ(job: LintJob) -> Iterator[LintFinding]:
    """Each process of MPI is one launcher. With fewer of them than --nnodes the rendezvous waits for ever; what is
    beyond is not let in."""
    for launch in job.launches[: look.SIBLINGS]:
        around = next((outer for outer in launch.around if outer.launcher == "mpirun"), None)
        tasks, nodes = whole(around.option("np")) if around is not None else None, _fixed_nodes(job, launch)
        if around is None or not tasks or nodes is None or tasks == nodes or _told_elsewhere(launch):
            continue
        each = whole(launch.option("nproc-per-node"))
        if tasks > nodes and (each is None or each > 1):
            continue  # M05
        option = around.options["np"]
        yield LintFinding(
            span=option.span,
            summary=f"mpirun starts {counted(tasks, 'launcher')}, and --nnodes is {nodes}",
            happens="The rendezvous waits for launchers that never come, until its time-out."
            if tasks < nodes
            else f"{counted(nodes, 'launcher')} make the world, and {tasks - nodes} are not let in.",
            fix=f"Write --nnodes={tasks}, or start {counted(nodes, 'process', 'processes')}.",
        )


def _fixed_nodes(job: LintJob, launch: LintLaunch) -> int | None:
    """--nnodes where it is one number; None for a range, and where nobody knows."""
    option = launch.option("nnodes") if launch.launcher in look.TORCHRUN else None
    return number(resolved(job, option.value)) if option is not None else None


def _told_elsewhere(launch: LintLaunch) -> bool:
    """Started on hosts one after the other, of which this is one."""
    return bool(launch.invocation.in_loop) or look.host_of(launch) is not None


@rule(
    "M16",
    title="WORLD_SIZE is the number of processes that mpirun starts",
    source="mpirun(1): -np; torch/distributed/rendezvous.py: the store waits for WORLD_SIZE ranks",
    leads_to=("launcher-world-mismatch",),
    bad=(_HANDED.format(2), _HANDED.format(16)),
    good=(
        _HANDED.format(8),
        _HANDED.replace("-x WORLD_SIZE={} ", "").replace("'RANK", "'WORLD_SIZE=$OMPI_COMM_WORLD_SIZE RANK"),
    ),
)
def world_is_not_the_processes(job: LintJob) -> Iterator[LintFinding]:
    """Where ranks are MPI's, so is their number: fewer ranks than WORLD_SIZE wait for ever, a rank above it is
    refused."""
    for launch in job.launches[: look.SIBLINGS]:
        tasks = whole(launch.option("np")) if launch.launcher == "mpirun" else None
        settings = launch.invocation.settings
        rank, world = settings.get("RANK"), settings.get("WORLD_SIZE")
        told = number(resolved(job, world.word)) if world is not None else None
        if rank is None or world is None or not tasks or told is None or told == tasks:
            continue
        if not _OF_A_TASK.search(rank.word.shown):
            continue
        yield LintFinding(
            span=world.word.span,
            summary=f"WORLD_SIZE is {told}, and mpirun starts {counted(tasks, 'rank')}",
            happens="The ranks wait for others that never come." if told > tasks else "A rank above it is refused.",
            fix="Write WORLD_SIZE=$OMPI_COMM_WORLD_SIZE (Open MPI) or $PMI_SIZE (MPICH, Intel MPI) in each task.",
        )


@rule(
    "H10",
    title="A start waits for no more nodes than the header asks for",
    source="pbs_resources(7B): select; bsub -n with span[ptile]; pjsub -L node; torch/distributed/run.py: --nnodes",
    leads_to=("rendezvous-incomplete",),
    bad=(
        _PBS + _HEAD + "for h in $(sort -u $PBS_NODEFILE); do\n  ssh $h \"cd $PBS_O_WORKDIR; torchrun --nnodes=8"
        ' --nproc-per-node=4 --rdzv-id=7 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 train.py" &\ndone\nwait\n',
        _LSF + _RUN.replace("mpiexec -n 4 --ppn 1", "blaunch -z \"$LSB_HOSTS\"").format(8, 4),
    ),
    good=(_PBS + _HEAD + _RUN.format(4, 4), _LSF + _RUN.format(4, 4)),
)  # fmt: skip
def more_nodes_than_asked_for(job: LintJob) -> Iterator[LintFinding]:
    """The scheduler gives the nodes of the header, and one launcher runs on each."""
    asked = headers.allocation(job)
    if asked is None or not asked.nodes:
        return
    for launch in job.launches[: look.SIBLINGS]:
        nodes = _fixed_nodes(job, launch)
        by_mpi = any(outer.launcher == "mpirun" and whole(outer.option("np")) for outer in launch.around)
        if nodes is None or nodes <= asked.nodes or by_mpi:
            continue
        yield LintFinding(
            span=launch.options["nnodes"].span if "nnodes" in launch.options else launch.invocation.words[0].span,
            summary=f"--nnodes is {nodes}, and the header asks for {counted(asked.nodes, 'node')}",
            happens="The rendezvous waits for nodes that never come, until its time-out.",
            fix=f"Write --nnodes={asked.nodes}, or ask for {nodes} nodes in line {asked.asked.span.line}.",
        )


@rule(
    "M17",
    title="A resource set has a GPU for each rank of its launcher",
    source="jsrun(1): a task sees the -g GPUs of its resource set; torch/distributed/run.py: --nproc-per-node",
    leads_to=("duplicate-gpu",),
    bad=(_SUMMIT.format(12, 1), _SUMMIT.format(4, 3)),
    good=(_SUMMIT.format(2, 6), _SUMMIT.format(2, 6).replace("torchrun --standalone --nproc-per-node=6", "python")),
)
def launcher_in_a_small_set(job: LintJob) -> Iterator[LintFinding]:
    """jsrun shows a task the GPUs of its set alone: a launcher that starts more ranks than these has ranks without."""
    for launch in job.launches[: look.SIBLINGS]:
        around = next((outer for outer in launch.around if outer.launcher == "jsrun"), None)
        gpus = whole(around.option("gpu-per-rs")) if around is not None else None
        ranks = processes.per_node(job, launch) if look.traits(launch).a_node else None
        if around is None or not gpus or not ranks or ranks <= gpus or processes.on_cpu(launch):
            continue
        yield LintFinding(
            span=around.options["gpu-per-rs"].span,
            summary=f"a resource set has {counted(gpus, 'GPU')}, and its launcher starts {ranks} ranks",
            happens="CUDA error: invalid device ordinal, at the first rank that has none.",
            fix=f"Write a set for each node with all its GPUs: -r 1 -a 1 -g {ranks}.",
        )
