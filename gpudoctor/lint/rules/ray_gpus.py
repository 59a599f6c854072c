"""Rules of the GPUs that Ray is told, has, and is asked for: J22 to J26."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look
from gpudoctor.lint.model import Invocation, LintJob, Word
from gpudoctor.lint.pods import containers
from gpudoctor.lint.processes import counted_entries
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, constant, has_stars
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_options import with_options

_VERL = "python3 -m verl.trainer.main_ppo data.train_batch_size=64 trainer.n_gpus_per_node={} trainer.nnodes={}\n"
_JOB = "#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --gpus-per-node=8\n"
_POD = (
    "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {{name: big}}\nspec:\n"
    "  leaderWorkerTemplate:\n    size: 1\n    workerTemplate:\n      spec:\n        containers:\n        - name: w\n"
    "          image: i\n          command: [bash, -c, 'ray start --address=$HEAD:6379 --num-gpus={} --block']\n"
    "          resources: {{limits: {{nvidia.com/gpu: 4}}}}\n"
)


def _starts(job: LintJob) -> list[Invocation]:
    """Every `ray start`."""
    return [
        each
        for each in job.invocations
        if each.program == "ray" and len(each.words) > 1 and each.words[1].shown == "start" and each.reached
    ]


def _gpus(start: Invocation) -> tuple[int | None, Word | None]:
    """--num-gpus, where it is told."""
    for index, word in enumerate(start.words):
        if word.shown == "--num-gpus" and index + 1 < len(start.words):
            return _number(start.words[index + 1].text), word
        if word.shown.startswith("--num-gpus="):
            return _number((word.text or "").partition("=")[2]), word
    return None, None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,4}", text, re.ASCII) else None


@rule(
    "J22",
    title="verl asks for the GPUs that Ray has",
    source="verl 0.5, trainer/ppo/ray_trainer.py, _check_resource_available; verl#2515, verl#5954",
    bad=(
        _JOB.format(1) + "ray start --head --num-gpus=8\n" + _VERL.format(8, 2),
        "ray stop\nray start --head --num-gpus=2\n" + _VERL.format(8, 1),
        _JOB.format(1) + _VERL.format(8, 2),
    ),
    good=(
        _JOB.format(1) + "ray start --head --num-gpus=8\n" + _VERL.format(8, 1),
        "ray start --head --num-gpus=8\n" + _VERL.format(8, 2),
        _JOB.format(2) + "srun -N1 -n1 ray start --head --num-gpus=8 --block &\n" + _VERL.format(8, 2),
    ),
)
def more_than_ray_has(job: LintJob) -> Iterator[LintFinding]:
    """trainer.nnodes times trainer.n_gpus_per_node GPUs are asked of the Ray cluster before anything is trained."""
    starts = _starts(job)
    told = [number for start in starts if (number := _gpus(start)[0]) is not None]
    batch = look.batch_nodes(job) if job.is_batch else None
    for launch, options in with_options(job):
        each, nodes = (options.get(f"trainer.{name}") for name in ("n_gpus_per_node", "nnodes"))
        if launch.script is None or not launch.script.shown.startswith("verl."):
            continue
        wanted, has = each.number if each is not None else None, max(told, default=0)
        if each is not None and wanted is not None and starts and len(told) == len(starts) and wanted > has:
            yield LintFinding(
                span=each.word.span,
                summary=f"{each.written}={wanted}, and ray start tells its nodes {counted(has, 'GPU')}",
                happens=f"ValueError: Total available GPUs {has} is less than total desired GPUs {wanted}.",
                fix=f"Write {each.written}={has}, or --num-gpus={wanted} where the node has them.",
            )
        elif nodes is not None and batch is not None and (nodes.number or 0) > batch:
            yield LintFinding(
                span=nodes.word.span,
                summary=f"{nodes.written}={nodes.number}, and the job has {counted(batch, 'node')}",
                happens="ValueError: Total available GPUs is less than total desired GPUs.",
                fix=f"Write {nodes.written}={batch}, or --nodes={nodes.number} and a ray start on each.",
            )


@rule(
    "J23",
    title="ray start tells Ray the GPUs that the node has",
    source="ray 2.40, _private/services.py and node.py: --num-gpus is believed, CUDA_VISIBLE_DEVICES is compared",
    leads_to=("no-gpu-visible",),
    bad=(
        _POD.format(8),
        "export CUDA_VISIBLE_DEVICES=0,1\nray start --head --num-gpus=8\n" + _VERL.format(8, 1),
        _JOB.format(2) + "srun --ntasks=1 --nodes=1 ray start --head --num-gpus 16 --block &\npython train.py\n",
    ),
    good=(
        _POD.format(4),
        "export CUDA_VISIBLE_DEVICES=0,1\nray start --head --num-gpus=2\n" + _VERL.format(2, 1),
        _JOB.format(2) + "srun --ntasks=1 --nodes=1 ray start --head --num-gpus 8 --block &\npython train.py\n",
    ),
)
def ray_told_more_gpus(job: LintJob) -> Iterator[LintFinding]:
    """Ray counts with what it is told: workers that get a number beyond the last GPU find none."""
    for start in _starts(job)[: look.SIBLINGS]:
        number, word = _gpus(start)
        if number is None or word is None:
            continue
        shown = start.settings.get(VARIABLE)
        has, whence, end = None, "", "workers find no GPU: invalid device ordinal, or no CUDA GPUs are available."
        if start.manifest_path:
            pods = (each for manifest in job.manifests for each in containers(manifest))
            own = next((each for each in pods if each.path == start.manifest_path[: len(each.path)]), None)
            has, whence = (own.gpus if own is not None else None), "its container is limited to"
        elif shown is not None and shown.exported and shown.word.text is not None:
            has, whence = len(counted_entries(shown.word.text)), f"{VARIABLE} shows"
            end = "ray start ends: ValueError: Attempting to start raylet with more GPUs than CUDA_VISIBLE_DEVICES has."
        elif job.is_batch and shown is None:
            asked = [allocation.in_force(job, name) for name in ("gpus-per-node", "gres")]
            counts = [allocation.gpu_count(each.value, gres=each.name == "gres") for each in asked if each is not None]
            has, whence = next((count for count in counts if count), None), "the job asks for"
        if has is not None and 0 < has < number:
            yield LintFinding(
                span=word.span,
                summary=f"ray start is told {counted(number, 'GPU')}, and {whence} {counted(has, 'GPU')}",
                happens=end[0].upper() + end[1:],
                fix=f"Write --num-gpus={has}.",
            )


_TRAINER = (
    "#@ file t.py\nfrom ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\n"
    "TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=4{})).fit()\n#@ every node\npython t.py\n"
)
_NOT_THERE = ("num_gpus_per_worker", "gpus_per_worker", "num_cpus_per_worker", "cpus_per_worker", "num_gpus")


@rule(
    "J24",
    title="Ray's ScalingConfig takes what it is told",
    source="ray 2.0 to 2.40, air/config.py, ScalingConfig.__post_init__ and its fields",
    leads_to=("program-error",),
    bad=(
        _TRAINER.format(", use_gpu=True, num_gpus_per_worker=1"),
        _TRAINER.format(", use_gpu=True, cpus_per_worker=4"),
    ),
    good=(
        _TRAINER.format(", use_gpu=True, resources_per_worker={'CPU': 4, 'GPU': 1}"),
        _TRAINER.format(", resources_per_worker={'CPU': 4}"),
        _TRAINER.format(", use_gpu=use_gpu, resources_per_worker={'GPU': 1}"),
    ),
)
def scaling_config_refuses(job: LintJob) -> Iterator[LintFinding]:
    """What a worker gets stands in resources_per_worker, and in no argument of its own."""
    for code in codes(job):
        if not code.brings("ray"):
            continue
        for call in code.calls:
            if not code.name(call.func).endswith("ScalingConfig") or has_stars(call):
                continue
            unknown = next((keyword for keyword in call.keywords if keyword.arg in _NOT_THERE), None)
            if unknown is not None:
                yield LintFinding(
                    span=code.span(unknown.value),
                    summary=f"ScalingConfig has no {unknown.arg}",
                    happens="TypeError: __init__() got an unexpected keyword argument.",
                    fix='Write resources_per_worker={"CPU": ..., "GPU": ...}, with use_gpu=True.',
                )


_WORKER = (
    "#@ file t.py\nimport torch\nfrom ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\n"
    "def loop(config):\n    net = torch.nn.Linear(4, 4){}\n"
    "TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=4{})).fit()\n#@ every node\npython t.py\n"
)
_REMOTE = (
    "#@ file t.py\nimport ray\nimport torch\nray.init()\n@ray.remote{}\ndef work(i):\n    return torch.ones(i).cuda()\n"
    "print(ray.get([work.remote(i) for i in range(4)]))\n#@ every node\npython t.py\n"
)
_FALLS_BACK = lazy_re(r"cuda\.is_available|get_device|prepare_model|device_count|CUDA_VISIBLE_DEVICES")


@rule(
    "J25",
    title="Ray's workers that use a GPU ask for one",
    source="ray 2.0 to 2.40, air/config.py: use_gpu is False; _private/worker.py: a worker without GPUs gets"
    " CUDA_VISIBLE_DEVICES=''",
    leads_to=("no-gpu-visible",),
    bad=(_WORKER.format(".to('cuda')", ""), _WORKER.format(".cuda()", ", use_gpu=False"), _REMOTE.format("")),
    good=(
        _WORKER.format(".to('cuda')", ", use_gpu=True"),
        _WORKER.format(".to('cuda' if torch.cuda.is_available() else 'cpu')", ""),
        _REMOTE.format("(num_gpus=1)"),
    ),
)
def workers_without_gpus(job: LintJob) -> Iterator[LintFinding]:
    """Ray shows a worker the GPUs that it was promised: without use_gpu or num_gpus there are none, and CUDA finds no
    device."""
    for code in codes(job):
        if not code.brings("ray") or _FALLS_BACK.search(code.text) or "RAY_ACCEL_ENV_VAR" in code.text:
            continue
        for call in code.calls:
            if not code.name(call.func).endswith("ScalingConfig") or has_stars(call) or not call.keywords:
                continue
            asks = argument(call, "use_gpu", 2)
            loop = _loop_of(code)
            if (asks is None or constant(asks) is False) and argument(call, "resources_per_worker") is None and loop:
                used = _uses_gpu(code, loop)
                if used is not None:
                    yield _without(code, call, used, "ScalingConfig says no use_gpu", "Write use_gpu=True.")
        for node in code.nodes:
            marks = [each for each in getattr(node, "decorator_list", ()) if code.name(each) == "ray.remote"]
            if marks and isinstance(node, FUNCTIONS) and ".options(" not in code.text:
                used = _uses_gpu(code, node)
                if used is not None:
                    yield _without(
                        code, marks[0], used, "@ray.remote asks for no GPU", "Write @ray.remote(num_gpus=1)."
                    )


def _loop_of(code: PythonCode) -> ast.AST | None:
    """The function that a TorchTrainer's workers run."""
    for call in code.calls:
        if code.name(call.func).endswith("TorchTrainer"):
            given = argument(call, "train_loop_per_worker", 0)
            name = given.id if isinstance(given, ast.Name) else ""
            return next((each for each in code.nodes if isinstance(each, FUNCTIONS) and each.name == name), None)
    return None


def _uses_gpu(code: PythonCode, scope: ast.AST) -> ast.expr | None:
    for node in ast.walk(scope):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            first = constant(node.args[0]) if node.args else None
            on_gpu = isinstance(first, str) and first.startswith("cuda")
            if (name == "cuda" and not node.args) or (name in ("to", "device") and on_gpu):
                return node
    return None


def _without(code: PythonCode, at: ast.expr, used: ast.expr, what: str, fix: str) -> LintFinding:
    return LintFinding(
        span=code.span(at),
        summary=f"{what}, and the worker uses one in line {code.line_of(used)}",
        happens="Ray sets CUDA_VISIBLE_DEVICES to nothing for it: No CUDA GPUs are available.",
        fix=fix,
    )


@rule(
    "J26",
    title="A Ray cluster has one head",
    source="Ray's documentation, Deploying on Slurm; ray start --head starts a cluster of its own",
    bad=(
        _JOB.format(2) + "srun ray start --head --port=6379 --block &\nsleep 9\npython train.py\n",
        _JOB.format(4) + "srun --ntasks-per-node=1 ray start --head --block &\nsleep 9\npython train.py\n",
    ),
    good=(
        _JOB.format(2) + "srun --nodes=1 --ntasks=1 ray start --head --port=6379 --block &\npython train.py\n",
        _JOB.format(1) + "srun ray start --head --port=6379 --block &\nsleep 9\npython train.py\n",
        _JOB.format(2) + "srun -N 1 -n 1 bash -c 'ray stop; ray start --head --port=6379 --block' &\npython train.py\n",
    ),
)
def a_head_on_each_node(job: LintJob) -> Iterator[LintFinding]:
    """srun starts its command on all nodes of the job: each of them becomes the head of a cluster of its own."""
    nodes = look.batch_nodes(job) if job.is_batch else None
    for start in _starts(job):
        outer = next((each for each in start.within if each.program == "srun"), None)
        heads = any(word.shown == "--head" for word in start.words)
        if outer is None or not heads or not nodes or nodes < 2 or start.conditional:
            continue
        said = [word.shown for word in outer.words]
        own = next((at for at, word in enumerate(said) if re.fullmatch(r"(?:\S*/)?(?:ray|bash|sh)", word)), len(said))
        if not _NARROWED.search(" ".join(said[:own])):
            yield LintFinding(
                span=start.span,
                summary=f"srun starts ray start --head on all {nodes} nodes of the job",
                happens="Each node is the head of a cluster of one: the others' GPUs never come.",
                fix='Write srun --nodes=1 --ntasks=1 -w "$HEAD" ray start --head ..., and --address on the others.',
            )


_NARROWED = lazy_re(r"(?:^|\s)(?:-[Nnwr]|--n(?:odes|tasks|odelist)(?:[=\s]|$)|--relative)")
