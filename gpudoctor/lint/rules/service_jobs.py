"""Rules of jobs of Vertex AI, Modal and NeMo-Run: J33 to J36."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.knowledge.modal_functions import GPU, SIZE, decorators_at
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.program_arguments import decided_number
from gpudoctor.lint.python_code import PythonCode, argument, codes, constant, has_stars
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule

_POOL = (
    "gcloud ai custom-jobs create --region=r --display-name=t --worker-pool-spec=machine-type={},replica-count={},"
    "accelerator-type=NVIDIA_TESLA_A100,accelerator-count={},container-image-uri=i\n"
)
_HAS = {"a2-highgpu": (1, 2, 4, 8), "a2-ultragpu": (1, 2, 4, 8), "a2-megagpu": (16,), "a3-highgpu": (1, 2, 4, 8),
        "a3-megagpu": (8,), "a3-ultragpu": (8,), "a4-highgpu": (8,)}  # fmt: skip
_MACHINE = lazy_re(r"(a[234]-\w+gpu)-(\d+)g", re.ASCII)
"""Compute Engine's machines whose name has the number of their GPUs."""


@rule(
    "J33",
    title="A pool of Vertex AI has one replica if it is the first, and the GPUs that its machine has",
    source="Vertex AI's documentation, Distributed training; Compute Engine's table of GPU machine types",
    leads_to=("program-error",),
    bad=(_POOL.format("a2-highgpu-8g", 4, 8), _POOL.format("a2-highgpu-4g", 1, 8)),
    good=(
        _POOL.format("a2-highgpu-8g", 1, 8),
        _POOL.format("a2-highgpu-8g", 1, 8).strip()
        + " --worker-pool-spec=machine-type=a2-highgpu-8g,replica-count=3\n",
    ),
)
def pools_of_gcloud(job: LintJob) -> Iterator[LintFinding]:
    """--worker-pool-spec stands once for each pool, the primary replica's first."""
    for launch in (each for each in job.launches if each.launcher == "vertex"):
        pools = [each for each in launch.every_option if each.name == "worker-pool-spec" and each.value is not None]
        for number, pool in enumerate(pools):
            told = dict(re.findall(r"([\w-]+)=([^,]*)", pool.value.shown if pool.value is not None else ""))
            replicas, gpus = look.whole(told.get("replica-count", "")), look.whole(told.get("accelerator-count", ""))
            machine = _MACHINE.fullmatch(told.get("machine-type", ""))
            if not number and replicas is not None and replicas > 1:
                yield LintFinding(
                    span=pool.span,
                    summary=f"the first worker pool has replica-count={replicas}; it is the primary replica's alone",
                    happens="Vertex AI refuses the job.",
                    fix=f"Write replica-count=1, and a second --worker-pool-spec with replica-count={replicas - 1}.",
                )
            if machine is not None and gpus is not None and gpus != int(machine[2]) and machine[1] in _HAS:
                yield LintFinding(
                    span=pool.span,
                    summary=f"accelerator-count={gpus}, and {machine[0]} has {counted(int(machine[2]), 'GPU')}",
                    happens="Vertex AI refuses the job: the accelerator count is not one of the machine type's.",
                    fix=f"Write accelerator-count={machine[2]}, or a machine type that has {gpus}.",
                )


_MODAL = (
    "import subprocess\nimport modal\nimport modal.experimental\napp = modal.App('t')\n\n\n"
    "@app.function(gpu='H100:{}')\n"
    "@modal.experimental.clustered(size={})\ndef train():\n    info = modal.experimental.get_cluster_info()\n"
    "    subprocess.run(f'torchrun --nnodes={} --nproc_per_node=8 --node_rank={{info.rank}}"
    " --master_addr={} --master_port=1234 t.py', shell=True)\n"
)
_IP = "{info.container_ips[0]}"
MOST_GPUS = 8


@rule(
    "J34",
    title="A container of Modal has up to eight GPUs, and a cluster as many nodes as torchrun waits for",
    source="modal.com/docs/guide/gpu and guide/multi-node-training: container_ips[0] is the head",
    leads_to=("rendezvous-incomplete",),
    bad=(_MODAL.format(16, 2, 2, _IP), _MODAL.format(8, 4, 2, _IP), _MODAL.format(8, 2, 2, "localhost")),
    good=(_MODAL.format(8, 2, 2, _IP), _MODAL.format(4, 4, 4, _IP).replace("node=8", "node=4")),
)
def functions_of_modal(job: LintJob) -> Iterator[LintFinding]:
    """The function runs in each container of its cluster: what it starts is told their number, and the first one's
    address."""
    if job.kind != "python" or "modal" not in job.text:
        return
    for match in GPU.finditer(job.text):
        if match[2] and int(match[2]) > MOST_GPUS:
            yield LintFinding(
                span=Span(match.start(), match.end(), job.text.count("\n", 0, match.start()) + 1),
                summary=f"{match[0]}: a container of Modal has up to {MOST_GPUS} GPUs",
                happens="Modal refuses the function.",
                fix=f"Write {match[1]}:{MOST_GPUS}, and several containers by modal.experimental.clustered(size=N).",
            )
    for launch in job.launches:
        size = SIZE.search(decorators_at(job.text, launch.invocation.span.start))
        told, master = look.nnodes(launch), look.master(launch)
        if size is None or int(size[1]) < 2:
            continue
        if told is not None and told[0] == told[1] != int(size[1]):
            yield LintFinding(
                span=launch.invocation.span,
                summary=f"--nnodes is {told[1]}, and the cluster has {size[1]} containers",
                happens="Node ranks beyond are refused, or the rendezvous waits for nodes that do not come.",
                fix=f"Write --nnodes={size[1]}.",
            )
        if master is not None and re.match(r"localhost|127\.", master.text or ""):
            yield LintFinding(
                span=launch.invocation.span,
                summary=f"{master.written} is {master.text}, and each of {size[1]} containers starts this",
                happens="Each container looks for the head in itself, and waits until a time-out.",
                fix="Write modal.experimental.get_cluster_info().container_ips[0].",
            )


_NEMO = (
    "import nemo_run as run\nexecutor = run.SlurmExecutor(account='a', nodes=2, ntasks_per_node={}, gpus_per_node={},"
    " launcher={})\nrun.run(run.Script({}), executor=executor)\n"
)
_INLINE = "inline='torchrun --nnodes=2 --nproc_per_node=8 t.py'"
_PATH = "'t.py', entrypoint='python'"
_RECIPE = (
    "import nemo_run as run\nfrom nemo.collections import llm\nrecipe = llm.llama3_8b.pretrain_recipe(name='a',"
    " num_nodes={}, num_gpus_per_node=8)\nexecutor = run.SlurmExecutor(account='a', nodes=2, ntasks_per_node=8,"
    " gpus_per_node=8, launcher='torchrun')\nrun.run(recipe, executor=executor)\n"
)
EXECUTORS = ("SlurmExecutor", "LocalExecutor")
_TORCHRUN = lazy_re(r"\btorchrun\b[^\n;&|]*?--nproc[-_]per[-_]node[= ](?:[2-9]|[1-9]\d|gpu|auto|\$)")


@rule(
    "J35",
    title="NeMo-Run's executor starts as many ranks as its node has GPUs, once",
    source="nemo_run 0.11, core/execution/slurm.py, _setup_launcher: with launcher torchrun the ranks of a node are"
    " torchrun_nproc_per_node or ntasks_per_node; run/torchx_backend/packaging.py",
    leads_to=("duplicate-gpu", "launcher-world-mismatch"),
    bad=(
        _NEMO.format(1, 8, "'torchrun'", _PATH),
        _NEMO.format(8, 4, "'torchrun'", _PATH),
        _NEMO.format(8, 8, "'torchrun'", _INLINE),
        _NEMO.format(8, 8, "None", _INLINE),
        _RECIPE.format(4),
    ),
    good=(
        _NEMO.format(8, 8, "'torchrun'", _PATH),
        _NEMO.format(1, 8, "None", _INLINE),
        _RECIPE.format(2),
        _NEMO.format(1, 8, "'torchrun', torchrun_nproc_per_node=8", _PATH),
    ),
)
def executors_of_nemo_run(job: LintJob) -> Iterator[LintFinding]:
    """The executor says how often the script is started on a node; torchrun in the script starts a node's ranks too."""
    for code in codes(job):
        executors = [call for call in code.calls if last_name(call.func) in EXECUTORS and not has_stars(call)]
        if code.brings("nemo_run") and len(executors) == 1:
            yield from _executor(code, executors[0])


def _executor(code: PythonCode, call: ast.Call) -> Iterator[LintFinding]:
    def whole(name: str) -> int | None:
        node = argument(call, name)
        return decided_number(code, node, None) if node is not None else None

    tasks, gpus, nodes = whole("ntasks_per_node"), whole("gpus_per_node"), whole("nodes")
    tasks = 1 if argument(call, "ntasks_per_node") is None else tasks
    by_torchrun = constant(argument(call, "launcher")) == "torchrun"
    own = argument(call, "torchrun_nproc_per_node") is not None
    span = code.span(argument(call, "ntasks_per_node") or call)
    starts = [each for each in code.calls if last_name(each.func) == "Script"]
    inline = next((argument(each, "inline") for each in starts if argument(each, "inline") is not None), None)
    text = PythonValues(code).behind(inline) if isinstance(inline, ast.Name) else inline
    inner = isinstance(text, ast.Constant) and _TORCHRUN.search(str(text.value).replace("\\\n", " ")) is not None
    if inner and (by_torchrun or (tasks or 0) > 1):
        yield LintFinding(
            span=code.span(text) if text is not None else span,
            summary="the script starts torchrun, and the executor starts the script "
            + ("by torchrun" if by_torchrun else f"in {tasks} tasks on each node"),
            happens="Each of a node's starts starts all its ranks: EADDRINUSE, and more ranks than GPUs.",
            fix='Leave launcher="torchrun" out, with ntasks_per_node=1.',
        )
    elif tasks is not None and gpus is not None and not own and not inner:
        if by_torchrun and tasks == 1 < gpus:
            yield LintFinding(
                span=span,
                severity="warning",
                summary=f'ntasks_per_node is 1 with launcher="torchrun": one rank on a node of {gpus} GPUs',
                happens=f"torchrun is told --nproc-per-node 1; {gpus - 1} GPUs of each node stay idle.",
                fix=f"Write ntasks_per_node={gpus}, or torchrun_nproc_per_node={gpus}.",
            )
        elif tasks > gpus:
            yield LintFinding(
                span=span,
                summary=f"ntasks_per_node is {tasks}, and gpus_per_node is {gpus}",
                happens="Ranks beyond the last GPU end: invalid device ordinal.",
                fix=f"Write ntasks_per_node={gpus}.",
            )
    for each in code.calls:
        if last_name(each.func).endswith("_recipe") and (node := argument(each, "num_nodes")) is not None:
            asked = decided_number(code, node, None)
            if asked is not None and nodes is not None and asked != nodes:
                yield LintFinding(
                    span=code.span(node),
                    summary=f"the recipe's Trainer is told {counted(asked, 'node')}, and the executor starts {nodes}",
                    happens="Lightning ends: devices times num_nodes is not the world size; or it waits for nodes.",
                    fix=f"Write num_nodes={nodes}, or nodes={asked} for the executor.",
                )
