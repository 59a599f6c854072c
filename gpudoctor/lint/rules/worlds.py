"""Rules of who starts how many worlds: a program that reads RANK under plain python, a launcher in every task of MPI,
pods that do not know each other: E15, M05, K07, K08."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, LintLaunch, Manifest
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.understood import whole

_READS = re.compile(r"os\.environ\[[\"'](?P<name>RANK|WORLD_SIZE|LOCAL_RANK)[\"']\](?!\s*=[^=])")
_ALSO = re.compile(
    r"environ\[[\"'](?:RANK|WORLD_SIZE|LOCAL_RANK)[\"']\]\s*=[^=]"
    r"|[\"'](?:RANK|WORLD_SIZE|LOCAL_RANK)[\"']\s+(?:not )?in\s+os\.environ"
    r"|environ\.(?:setdefault|update)|except KeyError|SLURM_|OMPI_|PMI_|\.spawn\(|torchrun|start_processes"
    r"|TORCHELASTIC|is_torchelastic|getenv\(|environ\.get\([\"'](?:RANK|WORLD_SIZE|LOCAL_RANK)|Process\("
)
_PROGRAM = (
    "#@ file train.py\nimport os\nimport torch.distributed as dist\nrank = int(os.environ['RANK'])\n"
    "dist.init_process_group('nccl')\n#@ every node\n"
)
_MPI = "mpirun -np 16 -H n01:8,n02:8 torchrun --nproc-per-node=8 train.py\n"
_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec:\n  completionMode: Indexed\n  parallelism: PAR\n"
    "  completions: 4\n  template:\n    spec:\n      containers:\n        - name: train\n"
    "          image: registry/image:tag\n"
    '          command: ["torchrun", NNODES"--nproc-per-node=1", "train.py"]\n'
)
_WITH = '"--nnodes=4", "--rdzv-backend=c10d", "--rdzv-endpoint=train-0.train:29400", '
_BY_OPERATOR = ("PyTorchJob", "TrainJob", "HyperPodPyTorchJob", "ElasticJob", "MPIJob")
_COUNTS = ("completions", "parallelism", "size", "replicas")


@rule(
    "E15",
    title="A program that reads RANK is started by a launcher",
    source="os.environ[...] raises KeyError; torch.distributed's env://",
    bad=(_PROGRAM + "python train.py\n", _PROGRAM.replace("RANK", "LOCAL_RANK") + "python3 -u train.py --lr 0.1\n"),
    good=(
        _PROGRAM + "torchrun --standalone --nproc-per-node=4 train.py\n",
        _PROGRAM + "srun -n 8 ./each.sh python train.py\n",
    ),
)
def program_reads_rank(job: LintJob) -> Iterator[LintFinding]:
    """RANK, WORLD_SIZE and LOCAL_RANK are set by torchrun and its likes. Under plain python nobody sets them."""
    for launch in job.launches:
        if launch.launcher != "python" or launch.around or look.from_platform(job, launch) or launch.invocation.within:
            continue
        name = launch.script.shown.rpartition("/")[2] if launch.script is not None else ""
        text = next(
            (each.text for each in job.sections if each.kind == "file" and name and each.name.endswith(name)), ""
        )
        found = _READS.search(text)
        if found is None or _ALSO.search(text) or found["name"] in launch.invocation.settings:
            continue
        yield LintFinding(
            span=launch.invocation.span,
            summary=f"{name} reads {found['name']} from the environment, and plain python starts it: it is not set",
            happens=f"It ends with KeyError: '{found['name']}'.",
            fix=f"Start it by a launcher: torchrun --standalone --nproc-per-node=gpu {name}.",
        )


@rule(
    "M05",
    title="mpirun starts one launcher a node, or one process a rank",
    source="mpirun(1); torch/distributed/run.py: every torchrun starts --nproc-per-node ranks",
    leads_to=("duplicate-gpu", "master-port-in-use"),
    bad=(_MPI, _MPI.replace("-np 16", "-np 4")),
    good=(
        "mpirun -np 2 -H n01:1,n02:1 torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d"
        " --rdzv-endpoint=n01:29400 train.py\n",
        _MPI.replace("-np 16 ", "-np 2 -npernode 1 "),
    ),
)
def launcher_in_every_mpi_task(job: LintJob) -> Iterator[LintFinding]:
    """Each task of MPI starts a torchrun, and each of these starts the ranks of a whole node."""
    for launch in job.launches:
        around = next((each for each in launch.around if each.launcher == "mpirun"), None)
        if around is None or launch.launcher not in look.TORCHRUN or around.option("npernode", "pernode") is not None:
            continue
        tasks, each = whole(around.option("np")), whole(launch.option("nproc-per-node"))
        nodes = look.nnodes(launch)
        hosts = nodes[1] if nodes is not None else job.facts.nodes or 1
        by = around.text("map-by") or ""
        if tasks is None or each is None or each < 2 or tasks <= hosts or "ppr:1:" in by:
            continue
        yield LintFinding(
            span=launch.invocation.span,
            summary=f"mpirun starts {tasks} tasks, and each starts a torchrun of {each}: {tasks * each} processes",
            happens="Several torchruns a node take the same GPUs and port: Duplicate GPU, address already in use.",
            fix="Start one task a node (-npernode 1), or python itself in every task, with RANK from MPI's variables.",
        )


def _pods(job: LintJob, launch: LintLaunch) -> tuple[Manifest, int] | None:
    """The pods that run this command, where no operator tells torchrun of them."""
    path = launch.invocation.manifest_path
    start = launch.invocation.span.start
    for manifest in job.manifests:
        spans = [value.span for value in manifest.values]
        inside = bool(spans) and min(each.start for each in spans) <= start <= max(each.end for each in spans)
        if not path or not inside or manifest.kind in _BY_OPERATOR or not manifest.api_version:
            continue
        counts = [
            int(value.value)
            for value in manifest.values
            if value.path[-1:]
            and value.path[-1] in _COUNTS
            and value.path[:-1] == path[: len(value.path) - 1]
            and re.fullmatch(r"[0-9]{1,5}", value.value, re.ASCII)
            and not (value.path[-1] == "replicas" and manifest.kind in ("Deployment", "LeaderWorkerSet"))
        ]
        return manifest, max(counts, default=1)
    return None


@rule(
    "K07",
    title="torchrun in several pods is told their number",
    source="torch/distributed/run.py: --nnodes is 1 unless it is given; Jobs, JobSets and StatefulSets set no PET_*",
    bad=(_JOB.replace("NNODES", "").replace("PAR", "4"), _JOB.replace("NNODES", "").replace("PAR", "2")),
    good=(
        _JOB.replace("NNODES", _WITH).replace("PAR", "4"),
        _JOB.replace("NNODES", "").replace("PAR", "1").replace("completions: 4", "completions: 1"),
    ),
)
def pods_without_nnodes(job: LintJob) -> Iterator[LintFinding]:
    """Only an operator (PyTorchJob, TrainJob) hands torchrun its --nnodes. In the pods of a Job or JobSet each torchrun
    is a world of its own, without a message."""
    for launch in job.launches:
        found = _pods(job, launch)
        if found is None or launch.launcher not in look.TORCHRUN or launch.unread or launch.around:
            continue
        if launch.option("nnodes", "standalone") is not None or found[1] < 2:
            continue
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"torchrun without --nnodes in {counted(found[1], 'pod')} of a {found[0].kind}",
            happens="Each pod trains by itself, with a world of its own: wrong numbers, and no message.",
            fix=f"Add --nnodes={found[1]}, --node-rank=$(JOB_COMPLETION_INDEX) and the head's name as --master-addr.",
        )


@rule(
    "K08",
    title="All pods of a training run at the same time",
    source="Kubernetes' documentation, Jobs: parallelism is how many pods run at a time",
    bad=(_JOB.replace("NNODES", _WITH).replace("PAR", "2"), _JOB.replace("NNODES", _WITH).replace("PAR", "1")),
    good=(
        _JOB.replace("NNODES", _WITH).replace("PAR", "4"),
        _JOB.replace("NNODES", '"--standalone", ').replace("PAR", "2"),
    ),
)
def fewer_pods_at_a_time(job: LintJob) -> Iterator[LintFinding]:
    """The rendezvous waits for all nodes; a Job starts the rest of its pods when the first ones have ended."""
    for manifest in job.manifests:
        values = {value.path: value for value in manifest.values}
        for path, value in values.items():
            wanted = values.get((*path[:-1], "completions"))
            if (
                path[-1:] != ("parallelism",)
                or wanted is None
                or not (value.value.isdecimal() and wanted.value.isdecimal())
            ):
                continue
            inner = [each for each in job.launches if each.invocation.manifest_path[: len(path) - 1] == path[:-1]]
            together = any((look.nnodes(each) or (1, 1))[0] > int(value.value) for each in inner)
            if int(value.value) < int(wanted.value) and together:
                yield LintFinding(
                    span=value.span,
                    summary=f"parallelism {value.value} and completions {wanted.value}: not all pods run at a time",
                    happens="torchrun waits for nodes that start only when these have ended: a rendezvous time-out.",
                    fix=f"Write parallelism: {wanted.value}.",
                )
