"""Rules of who starts how many worlds: a program that reads RANK under plain python, a launcher in every task of MPI,
pods that do not know each other, or are not as many as torchrun waits for: E15, M05, K07 to K09."""

import ast
from collections.abc import Iterator, Sequence

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.seats import HOOKS
from gpudoctor.lint.hand_ranks import inits
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.pods import BY_OPERATOR, manifest_of, pods_of
from gpudoctor.lint.programs import wanted
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes_and_starts, constant, has_stars
from gpudoctor.lint.python_text import walked
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.understood import whole

_OF_A_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_ALSO = lazy_re(
    r"environ\[[\"'](?:RANK|WORLD_SIZE|LOCAL_RANK)[\"']\]\s*=[^=]"
    r"|[\"'](?:RANK|WORLD_SIZE|LOCAL_RANK)[\"']\s+(?:not )?in\s+os\.environ"
    r"|environ\.(?:setdefault|update)|except KeyError|SLURM_|OMPI_|PMI_|\.spawn\(|torchrun|start_processes"
    r"|TORCHELASTIC|is_torchelastic|getenv\(|environ\.get\([\"'](?:RANK|WORLD_SIZE|LOCAL_RANK)|Process\("
)
_PROGRAM = (
    "#@ file train.py\nimport os\nimport torch.distributed as dist\nrank = int(os.environ['RANK'])\n"
    "dist.init_process_group('nccl')\n#@ every node\n"
)
_JOINS = "#@ file train.py\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n#@ every node\n"
_GUARDED = (
    "#@ every node\npython train.py\n#@ file train.py\nimport os\nimport torch.distributed as dist\n"
    "local = int(os.environ.get('LOCAL_RANK', -1))\ndist.init_process_group('nccl')\n"
)
_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: t}}\nspec:\n  restartPolicy: Never\n  containers:\n"
    "  - {{name: t, image: a, command: [{}, train.py]}}\n#@ file train.py\nimport torch.distributed as dist\n"
    "dist.init_process_group('nccl')\n"
)
_MPI = "mpirun -np 16 -H n01:8,n02:8 torchrun --nproc-per-node=8 train.py\n"
_JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train}\nspec:\n  completionMode: Indexed\n  parallelism: PAR\n"
    "  completions: 4\n  template:\n    spec:\n      restartPolicy: Never\n      subdomain: train\n"
    "      containers:\n        - name: train\n"
    "          image: registry/image:tag\n"
    '          command: ["torchrun", NNODES"--nproc-per-node=1", "train.py"]\n'
)
_OPERATED = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: train}\nspec:\n  pytorchReplicaSpecs:\n"
    + "".join(
        f"    {name}:\n      replicas: {count}\n      template:\n        spec:\n          containers:\n"
        '            - name: pytorch\n              command: ["torchrun", "--nnodes=4", "train.py"]\n'
        for name, count in (("Master", 1), ("Worker", 3))
    )
)
_WITH = '"--nnodes=4", "--rdzv-backend=c10d", "--rdzv-endpoint=train-0.train:29400", '


@rule(
    "E15",
    title="A program that reads RANK is started by a launcher",
    source="os.environ[...] raises KeyError; torch.distributed's env://",
    bad=(
        _PROGRAM + "python train.py\n",
        _PROGRAM.replace("RANK", "LOCAL_RANK") + "python3 -u train.py --lr 0.1\n",
        _JOINS + "CUDA_VISIBLE_DEVICES=0,1 python train.py\n",
        _JOINS + "srun -n 8 python train.py\n",
        _PROGRAM + "source .venv/bin/activate\npython train.py\n",
        _JOINS.replace("'nccl'", "'nccl', rank=int(os.environ['SLURM_PROCID']), world_size=8").replace(
            "import torch", "import os\nimport torch", 1
        )
        + "srun -n 8 python train.py\n",
        _GUARDED,
        _POD.format("python"),
    ),
    good=(
        _JOINS + "RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29501 python train.py\n",
        _JOINS.replace("'nccl'", "'nccl', rank=0, world_size=1, init_method='tcp://127.0.0.1:29501'")
        + "python train.py\n",
        '#@ file launch.py\n"""For programs that read os.environ[\'RANK\']."""\nimport subprocess\nimport sys\n'
        "subprocess.check_call(sys.argv[1:])\n#@ every node\npython launch.py train.py\n",
        _PROGRAM + "torchrun --standalone --nproc-per-node=4 train.py\n",
        _PROGRAM + "srun -n 8 ./each.sh python train.py\n",
        _PROGRAM + "source ranks.env\npython train.py\n",
        "#@ file serve.py\nimport os\nimport ray\n@ray.remote\nclass Actor:\n    def __init__(self):\n"
        "        self.rank = int(os.environ['LOCAL_RANK'])\n#@ every node\npython serve.py\n",
        _GUARDED.replace("dist.init", "if local >= 0:\n    dist.init"),
        _GUARDED.replace("dist.init", "os.environ.setdefault('RANK', '0')\ndist.init"),
        _POD.format("torchrun, --standalone"),
    ),
)
def program_reads_rank(job: LintJob) -> Iterator[LintFinding]:
    """RANK, WORLD_SIZE and LOCAL_RANK are set by torchrun and its likes. Under plain python nobody sets them."""
    followed = {id(each.launch): joined for each in courses(job) if (joined := _joins_without_rank(job, each))}
    for code, launches in codes_and_starts(job):
        yield from _without_head(job, code, launches)
        for launch in launches:
            if id(launch) in followed:
                name = launch.script.shown.rpartition("/")[2] if launch.script is not None else ""
                yield _nobody_tells(launch, name, "RANK", _EXPECTED, by_srun=False)
        if _ALSO.search(code.text):
            continue
        actors = _of_actors(code)
        subscripts = (node for node in code.nodes if isinstance(node, ast.Subscript) and node not in actors)
        read = {name: f"KeyError: '{name}'" for name in map(wanted, subscripts) if name in _OF_A_RANK}
        if any(_asks_environment(code, init) for init in inits(code) if init not in actors):
            read.setdefault("RANK", _EXPECTED)
        for launch in launches if not job.has_unread_source else ():
            known = (*launch.invocation.settings, *job.facts.variables)
            lacking = next((name for name in read if name not in known), None)
            by_srun = launch.launcher == "srun" and [outer.program for outer in launch.invocation.within] == ["srun"]
            if by_srun and HOOKS.search(job.text):
                continue
            plain = launch.launcher == "python" and not launch.around and not launch.invocation.within
            if lacking is None or not (plain or by_srun) or look.from_platform(job, launch) or id(launch) in followed:
                continue
            name = launch.script.shown.rpartition("/")[2] if launch.script is not None else ""
            yield _nobody_tells(launch, name, lacking, read[lacking], by_srun=by_srun)


_EXPECTED = "ValueError: env:// rendezvous: environment variable RANK expected, but not set"


def _nobody_tells(launch: LintLaunch, name: str, lacking: str, end: str, *, by_srun: bool) -> LintFinding:
    return LintFinding(
        span=launch.invocation.span,
        summary=f"{name} reads {lacking} from the environment, and {'srun' if by_srun else 'plain python'}"
        " starts it: it is not set",
        happens=f"It ends with {end}.",
        fix="Set RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS in each task, by bash -c"
        " '...'; or let srun start one torchrun on each node."
        if by_srun
        else f"Start it by a launcher: torchrun --standalone --nproc-per-node=gpu {name}.",
    )


def _joins_without_rank(job: LintJob, each: Courses) -> bool:
    """Whether plain python, followed through its program, comes to env:// and certainly has no RANK there."""
    launch, code = each.launch, each.code
    if launch is None or launch.launcher != "python" or each.spawn is not None or job.has_unread_source:
        return False
    if launch.invocation.within:  # docker run -e, a wrapper of one's own
        return False
    joins = [deed for deed in each.ranks[0].deeds if deed.what == "unset" and deed.is_sure]
    if not joins or "RANK" in job.facts.variables or code.brings("ray", "dotenv", "submitit"):
        return False
    tried = any(isinstance(above, ast.Try) for above in code.around(joins[0].node))
    set_up = any(map(_SETS_UP.search, map(code.name, (call.func for call in code.calls))))
    return not tried and not set_up and not _ELSEWHERE.search(code.text)


_ELSEWHERE = lazy_re(
    r"environ\.update|SLURM_|OMPI_|PMI|PALS_|\.spawn\(|start_processes|Process\(|Popen|torchrun|TORCHELASTIC|execv"
)
"""The program knows of others that may start it, or starts its ranks itself."""


def _without_head(job: LintJob, code: PythonCode, launches: Sequence[LintLaunch]) -> Iterator[LintFinding]:
    """Ranks that know their number from SLURM or MPI, which set no MASTER_ADDR: env:// asks for it all the same."""
    asked = next((init for init in inits(code) if _meets_by_environment(code, init)), None)
    if asked is None or not code.is_whole() or "MASTER_ADDR" in job.text or job.has_unread_source:
        return
    if "MASTER_ADDR" in code.text:  # of a file that the program imports
        return
    if not _OF_TASKS.search(code.text) or any(map(_SETS_UP.search, map(code.name, (call.func for call in code.calls)))):
        return
    for launch in launches:
        alone = [outer.program for outer in launch.invocation.within] in (["srun"], ["mpirun"], ["mpiexec"])
        if launch.launcher in ("srun", "mpirun") and alone and not look.from_platform(job, launch) and not (
            HOOKS.search(job.text) or "MASTER_ADDR" in job.facts.variables or code.brings("deepspeed", "lightning")
        ):  # fmt: skip
            yield LintFinding(
                span=code.span(asked),
                summary=f"the group is made by env://, and {launch.launcher} sets no MASTER_ADDR, nor does this text",
                happens="ValueError: environment variable MASTER_ADDR expected, but not set.",
                fix='Export MASTER_ADDR (scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1) and MASTER_PORT.',
            )
            return


_SETS_UP = lazy_re(
    r"^(?!torch\.|os\.|subprocess\.|hostlist\.)\w+\.(?:.*\.)?\w*(?:dist|slurm|init|setup|env|launch|rank)\w*$"
)
"""Of a module that is not here: it may set what env:// reads."""
_OF_TASKS = lazy_re(r"SLURM_PROCID|OMPI_COMM_WORLD_RANK|PMI_RANK|Get_rank\(")


def _meets_by_environment(code: PythonCode, init: ast.Call) -> bool:
    method = argument(init, "init_method", 1)
    asks = method is None or constant(method) == "env://"
    return asks and not (
        code.is_conditional(init) or has_stars(init) or argument(init, "store", 5) is not None
        or constant(argument(init, "backend", 0)) == "mpi"
    )  # fmt: skip


def _of_actors(code: PythonCode) -> frozenset[ast.AST]:
    """What Ray runs in processes of its own, whose environment the program's driver sets."""
    if not code.brings("ray"):
        return frozenset()
    made = (node for node in code.nodes if isinstance(node, (ast.ClassDef, *FUNCTIONS)))
    marked = (node for node in made if any("ray.remote" in ast.unparse(each) for each in node.decorator_list))
    return frozenset(inner for node in marked for inner in walked(node))


def _asks_environment(code: PythonCode, init: ast.Call) -> bool:
    """Whether it is certain that a call takes its rank from RANK."""
    is_called = isinstance(code.scope_of(init), ast.Module) or code.is_called(code.scope_of(init))
    return _meets_by_environment(code, init) and argument(init, "rank", 4) is None and is_called


@rule(
    "M05",
    title="mpirun starts one launcher a node, or one process a rank",
    source="mpirun(1); torch/distributed/run.py: every torchrun starts --nproc-per-node ranks",
    leads_to=("duplicate-gpu", "master-port-in-use"),
    bad=(_MPI, _MPI.replace("-np 16", "-np 4"), _MPI.replace("-np 16", "-np 16 --npernode 8")),
    good=(
        "mpirun -np 2 -H n01:1,n02:1 torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d"
        " --rdzv-endpoint=n01:29400 train.py\n",
        _MPI.replace("-np 16 ", "-np 2 -npernode 1 "),
    ),
)
def launcher_in_every_mpi_task(job: LintJob) -> Iterator[LintFinding]:
    """Each task of MPI starts a torchrun, and each of these starts the ranks of a whole node."""
    for launch in job.launches:
        around = next((lint_launch for lint_launch in launch.around if lint_launch.launcher == "mpirun"), None)
        if around is None or launch.launcher not in look.TORCHRUN or around.option("pernode") is not None:
            continue
        here = around.option("npernode")
        if here is not None and (whole(here) or 1) < 2:
            continue
        tasks, each = whole(around.option("np")), whole(launch.option("nproc-per-node"))
        nodes = look.nnodes(launch)
        hosts = nodes[1] if nodes is not None else job.facts.nodes or 1
        if here is not None and tasks is None:
            tasks = (whole(here) or 1) * hosts
        by = around.text("map-by") or ""
        if tasks is None or each is None or each < 2 or tasks <= hosts or "ppr:1:" in by:
            continue
        yield LintFinding(
            span=launch.invocation.span,
            summary=f"mpirun starts {tasks} tasks, and each starts a torchrun of {each}: {tasks * each} processes",
            happens="Several torchruns a node take the same GPUs and port: Duplicate GPU, address already in use.",
            fix="Start one task a node (-npernode 1), or python itself in every task, with RANK from MPI's variables.",
        )


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
        manifest = manifest_of(job, launch)
        if manifest is None or manifest.kind in BY_OPERATOR or launch.launcher not in look.TORCHRUN:
            continue
        pods = pods_of(manifest, launch) or 1
        if launch.unread or launch.around or launch.option("nnodes", "standalone") is not None or pods < 2:
            continue
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"torchrun without --nnodes in {counted(pods, 'pod')} of a {manifest.kind}",
            happens="Each pod trains by itself, with a world of its own: wrong numbers, and no message.",
            fix=f"Add --nnodes={pods}, --node-rank=$(JOB_COMPLETION_INDEX) and the head's name as --master-addr.",
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
            inner = [launch for launch in job.launches if launch.invocation.manifest_path[: len(path) - 1] == path[:-1]]
            together = any((look.nnodes(launch) or (1, 1))[0] > int(value.value) for launch in inner)
            if int(value.value) < int(wanted.value) and together:
                yield LintFinding(
                    span=value.span,
                    summary=f"parallelism {value.value} and completions {wanted.value}: not all pods run at a time",
                    happens="torchrun waits for nodes that start only when these have ended: a rendezvous time-out.",
                    fix=f"Write parallelism: {wanted.value}.",
                )


@rule(
    "K09",
    title="A manifest starts as many pods as torchrun waits for",
    source="torch/distributed/run.py: --nnodes is how many agents meet; Kubernetes' counts of pods",
    leads_to=("rendezvous-incomplete",),
    bad=(
        _JOB.replace("NNODES", _WITH).replace("PAR", "3").replace("completions: 4", "completions: 3"),
        _OPERATED.replace("nnodes=4", "nnodes=3"),
    ),
    good=(
        _JOB.replace("NNODES", _WITH).replace("PAR", "4"),
        _JOB.replace("NNODES", _WITH.replace("nnodes=4", "nnodes=2:4")).replace("PAR", "4"),
        _OPERATED,
    ),
)
def pods_and_nodes_differ(job: LintJob) -> Iterator[LintFinding]:
    """torchrun waits until --nnodes agents have come: with fewer pods for ever, and with more the last ones are not let
    in, or make a world of their own."""
    for launch in job.launches:
        manifest = manifest_of(job, launch)
        counts = launch.launcher in look.TORCHRUN or look.traits(launch).serves
        nodes = look.nnodes(launch) if counts else None
        if manifest is None or nodes is None or nodes[0] != nodes[1] or launch.around:
            continue
        pods = pods_of(manifest, launch)
        if pods is None or pods == nodes[1]:
            continue
        option = launch.option("nnodes")
        yield LintFinding(
            span=option.value.span if option is not None and option.value is not None else look.head_span(launch),
            summary=f"--nnodes is {nodes[1]}, and the {manifest.kind} starts {counted(pods, 'pod')}",
            happens="The ranks wait for nodes that do not come, and end in a rendezvous time-out."
            if pods < nodes[1]
            else "The pods beyond are not let in: they end in a rendezvous time-out, and their GPUs idle.",
            fix=f"Write --nnodes={pods}, or start {counted(nodes[1], 'pod')}.",
        )
