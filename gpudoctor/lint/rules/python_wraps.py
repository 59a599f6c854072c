"""Rules of how a program wraps its model, and of what Horovod leaves to it: T39, T41 to T43; of mmengine: T44."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, numbers, own_nodes
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = (
    "#@ file train.py\nimport torch\nimport torch.distributed as dist\n"
    "from torch.nn.parallel import DistributedDataParallel\n"
)
_RUN = "#@ every node\ntorchrun --standalone --nproc-per-node=2 train.py\n"
_DDP = _HEAD + "dist.init_process_group('nccl')\nnet = torch.nn.Linear(4, 4).cuda()\n"


@rule(
    "T39",
    title="DistributedDataParallel is given the one GPU of its rank",
    source="torch/nn/parallel/distributed.py: device_ids can only be None or contain a single element",
    leads_to=("program-error",),
    bad=(
        _DDP + "net = DistributedDataParallel(net, device_ids=[0, 1])\n" + _RUN,
        _DDP + "ids = [0, 1, 2, 3]\nnet = DistributedDataParallel(net, device_ids=ids)\n" + _RUN,
    ),
    good=(
        _DDP + "net = DistributedDataParallel(net, device_ids=[dist.get_rank()])\n" + _RUN,
        _DDP + "net = torch.nn.DataParallel(net, device_ids=[0, 1])\n" + _RUN,
    ),
)
def several_device_ids(job: LintJob) -> Iterator[LintFinding]:
    """Each rank has one GPU, its own; a list of several is DataParallel's, which is one process."""
    for code in codes(job):
        values = PythonValues(code)
        for call in code.calls:
            if code.torch_name(call.func) != "DistributedDataParallel":
                continue
            ids = argument(call, "device_ids", 1)
            told = values.value(ids)
            behind = values.behind(ids) if isinstance(ids, ast.Name) else ids
            written = behind.elts if isinstance(behind, (ast.List, ast.Tuple)) else []
            count = len(told) if isinstance(told, list) else len(written)
            if ids is not None and count > 1:
                yield LintFinding(
                    span=code.span(ids),
                    summary=f"DistributedDataParallel is given {count} device_ids; it takes one, its rank's",
                    happens="ValueError: device_ids can only be None or contain a single element.",
                    fix="Write device_ids=[local_rank].",
                )


_DP = "#@ file train.py\nimport torch\nnet = torch.nn.Linear(4, 4).{}\nnet = torch.nn.DataParallel(net{})\n"
_PLAIN = "#@ every node\npython train.py\n"


@rule(
    "T41",
    title="DataParallel's model is on its first GPU",
    source="torch/nn/parallel/data_parallel.py: module must have its parameters and buffers on device_ids[0]",
    leads_to=("program-error",),
    bad=(
        _DP.format("to('cuda:3')", ", device_ids=[0, 3]") + _PLAIN,
        _DP.format("cuda(1)", "") + _PLAIN,
    ),
    good=(
        _DP.format("to('cuda:0')", ", device_ids=[0, 3]") + _PLAIN,
        _DP.format("cuda(3)", ", device_ids=[3, 0]") + _PLAIN,
        _DP.format("cuda()", "") + _PLAIN,
    ),
)
def data_parallel_on_another_gpu(job: LintJob) -> Iterator[LintFinding]:
    """The replicas are made of the model on device_ids[0], which is cuda:0 unless a list says otherwise."""
    for code in codes(job):
        for call in code.calls:
            if code.torch_name(call.func) != "DataParallel":
                continue
            ids, model = argument(call, "device_ids", 1), argument(call, "module", 0)
            listed = numbers(ids) if ids is not None else [0]
            moves = _moves(code, call, model) if model is not None else []
            if not listed or len(moves) != 1 or moves[0] is None or moves[0] == listed[0]:
                continue
            yield LintFinding(
                span=code.span(call),
                summary=f"the model is on cuda:{moves[0]}, and DataParallel's first GPU is cuda:{listed[0]}",
                happens="RuntimeError: module must have its parameters and buffers on device"
                f" cuda:{listed[0]} (device_ids[0]) but found one of them on device: cuda:{moves[0]}.",
                fix=f"Move it to cuda:{listed[0]}, or begin device_ids with {moves[0]}.",
            )


def _moves(code: PythonCode, call: ast.Call, model: ast.expr) -> list[int | None]:
    """GPUs to which the model is moved in the scope of the call, before and behind it; None: not told which."""
    scope = code.scope_of(call)
    name = model.id if isinstance(model, ast.Name) else ""
    statement = next((above for above in code.around(call) if isinstance(above, ast.Assign)), None)
    wrapped = statement.targets[0].id if statement and isinstance(statement.targets[0], ast.Name) else ""
    found: list[int | None] = []
    for node in own_nodes(scope):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr not in ("to", "cuda") or not node.args:
            continue
        base = code.parents.get(node)
        target = base.targets[0] if isinstance(base, ast.Assign) and len(base.targets) == 1 else None
        mine = any(isinstance(each, ast.Name) and each.id in (name, wrapped) for each in ast.walk(node.func.value))
        bound = isinstance(target, ast.Name) and target.id in (name, wrapped) and bool(name)
        if mine or bound or node is model or any(each is node for each in ast.walk(model)):
            found.append(_gpu(code, node.args[0]))
    return found


def _gpu(code: PythonCode, node: ast.expr) -> int | None:
    values = PythonValues(code)
    if isinstance(node, ast.Name):
        node = values.behind(node) or node
    if isinstance(node, ast.Call) and code.torch_name(node.func) == "device" and node.args:
        node = node.args[0]
    told = values.value(node)
    if type(told) is int:
        return told
    found = re.fullmatch(r"cuda:([0-9]{1,2})", told) if isinstance(told, str) else None
    return int(found[1]) if found is not None else 0 if told == "cuda" else None


_HVD = (
    "#@ file train.py\nimport torch\nimport horovod.torch as hvd\nhvd.init()\n{}net = torch.nn.Linear(4, 4).cuda()\n"
    "opt = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), 0.1), net.named_parameters())\n{}"
)
_PIN, _SEND = "torch.cuda.set_device(hvd.local_rank())\n", "hvd.broadcast_parameters(net.state_dict(), root_rank=0)\n"
_HOROVOD = "#@ every node\nhorovodrun -np 4 -H localhost:4 python train.py\n"


@rule(
    "T42",
    title="Each rank of Horovod takes a GPU of its own",
    source="Horovod's documentation, Horovod with PyTorch: pin each GPU to a single process",
    leads_to=("duplicate-gpu",),
    bad=(_HVD.format("", _SEND) + _HOROVOD, _HVD.format("", _SEND).replace(".cuda()", ".to('cuda')") + _HOROVOD),
    good=(
        _HVD.format(_PIN, _SEND) + _HOROVOD,
        _HVD.format("", _SEND).replace(".cuda()", "") + _HOROVOD,
    ),
)
def horovod_ranks_on_one_gpu(job: LintJob) -> Iterator[LintFinding]:
    """Horovod chooses no GPU: without set_device all ranks of a node compute on the first."""
    for code, call in _horovod(job):
        chooses = re.search(r"set_device|local_rank|CUDA_VISIBLE_DEVICES|cuda:\{|device_id", code.text)
        if chooses is None and re.search(r"\.cuda\(\)|[\"']cuda[\"']", code.text):
            yield LintFinding(
                span=code.span(call),
                summary="the ranks of Horovod choose no GPU: nothing sets the device to hvd.local_rank()",
                happens="All ranks of a node take cuda:0: out of memory, or NCCL's Duplicate GPU detected.",
                fix="Write torch.cuda.set_device(hvd.local_rank()) behind hvd.init().",
            )


@rule(
    "T43",
    title="The ranks of Horovod begin with the same weights",
    source="Horovod's documentation, Horovod with PyTorch: broadcast the initial variable states from rank 0",
    bad=(_HVD.format(_PIN, "") + _HOROVOD, _HVD.format(_PIN, "train(net, opt)\n") + _HOROVOD),
    good=(_HVD.format(_PIN, _SEND) + _HOROVOD, _HVD.format(_PIN + "torch.manual_seed(1)\n", "") + _HOROVOD),
)
def horovod_without_broadcast(job: LintJob) -> Iterator[LintFinding]:
    """DistributedOptimizer averages gradients, and never the weights: each rank keeps what it drew at the start."""
    for code, call in _horovod(job):
        if re.search(r"broadcast|manual_seed|seed_everything|load_state_dict|pretrained|elastic|seed\(", code.text):
            continue
        if "DistributedOptimizer" in code.text:
            yield LintFinding(
                span=code.span(call),
                summary="the ranks of Horovod draw their weights each for itself: nothing broadcasts those of rank 0",
                happens="The models differ from the first step on: averaged gradients are of different models.",
                fix="Write hvd.broadcast_parameters(model.state_dict(), root_rank=0), and"
                " hvd.broadcast_optimizer_state(optimizer, root_rank=0).",
            )


def _horovod(job: LintJob) -> Iterator[tuple[PythonCode, ast.Call]]:
    for code in codes(job):
        for call in code.calls:
            if code.name(call.func) == "horovod.torch.init":
                yield code, call
                break


@rule(
    "T44",
    title="A program of OpenMMLab is told its launcher",
    severity="warning",
    source="mmdetection 3.3, tools/train.py: --launcher is none unless it is given; mmengine, runner.py",
    bad=(
        "torchrun --standalone --nproc_per_node=8 tools/train.py configs/faster_rcnn.py\n",
        "python -m torch.distributed.launch --nproc_per_node=4 ./tools/train.py configs/x.py --work-dir out\n",
    ),
    good=(
        "torchrun --standalone --nproc_per_node=8 tools/train.py configs/faster_rcnn.py --launcher pytorch\n",
        "torchrun --standalone --nproc_per_node=8 tools/train.py --config-file configs/x.yaml\n",
        "torchrun --standalone --nproc_per_node=1 tools/train.py configs/faster_rcnn.py\n",
    ),
)
def launcher_not_told(job: LintJob) -> Iterator[LintFinding]:
    """mmengine reads no RANK by itself: without --launcher each process is a training of its own."""
    for launch in job.launches:
        words = [word.text for word in launch.script_words]
        script = launch.script.shown if launch.script is not None else ""
        mine = re.search(r"(?:^|/)tools/(?:train|test|slim_train)\.py$", script) is not None
        if launch.launcher not in (*look.TORCHRUN, "srun") or not mine or not words or None in words:
            continue
        config = words[0] or ""
        told = any((word or "").partition("=")[0] == "--launcher" for word in words)
        if told or not re.search(r"\w\.py$", config) or launch.text("nproc-per-node") == "1":
            continue
        if launch.launcher == "srun" and not re.search(r"mmdet|mmseg|mmcv|mmengine|openmm", job.text, re.IGNORECASE):
            continue
        yield LintFinding(
            span=launch.script.span if launch.script is not None else look.head_span(launch),
            summary=f"{script} is not told --launcher: mmengine's default is none",
            happens="Each process trains by itself on the whole of the data, all of a node on one GPU.",
            fix=f"Add --launcher {'slurm' if launch.launcher == 'srun' else 'pytorch'} behind the configuration.",
        )
