"""Rules of how a program wraps its model, and of what Horovod leaves to it: T39, T42, T43, T53; of mmengine: T44."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.hand_ranks import inits
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, own_nodes
from gpudoctor.lint.python_devices import sets_visible
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = (
    "#@ file train.py\nimport torch\nimport torch.distributed as dist\n"
    "from torch.nn.parallel import DistributedDataParallel\n"
)
_RUN = "#@ every node\ntorchrun --standalone --nproc-per-node=2 train.py\n"
_DDP = (
    _HEAD
    + "dist.init_process_group('nccl')\ntorch.cuda.set_device(dist.get_rank())\nnet = torch.nn.Linear(4, 4).cuda()\n"
)


_EVERY = lazy_re(
    r"(?:list\()?range\((?:0, )?(?:torch\.)?(?:cuda\.)?device_count\(\)\)\)?"
    r"|\[(\w+) for \1 in range\((?:torch\.)?(?:cuda\.)?device_count\(\)\)\]"
)


@rule(
    "T39",
    title="DistributedDataParallel is given the one GPU of its rank",
    source="torch/nn/parallel/distributed.py: device_ids can only be None or contain a single element",
    leads_to=("program-error",),
    bad=(
        _DDP + "net = DistributedDataParallel(net, device_ids=[0, 1])\n" + _RUN,
        _DDP + "net = DistributedDataParallel(net, device_ids=list(range(torch.cuda.device_count())))\n" + _RUN,
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
            every = behind is not None and _EVERY.fullmatch(ast.unparse(behind)) is not None
            one = job.facts.gpus_per_node == 1 or any(sets_visible(code))
            if ids is not None and (count > 1 or (every and not one)):
                several = "all GPUs as" if every else str(count)
                yield LintFinding(
                    span=code.span(ids),
                    summary=f"DistributedDataParallel is given {several} device_ids; it takes one, its rank's",
                    happens="ValueError: device_ids can only be None or contain a single element.",
                    fix="Write device_ids=[local_rank].",
                )


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


_OWN = _HEAD + "def main(rank):\n    dist.init_process_group('nccl', rank=rank, world_size=4)\n{}"
_WRAPPED = "    net = DistributedDataParallel(net, device_ids=[rank])\n"
_CURRENT = lazy_re(r"set_device|default_device|default_tensor_type|cuda\.device\(|CUDA_VISIBLE_DEVICES|HIP_VISIBLE")
"""What gives a process another current GPU than the first one that is there."""


@rule(
    "T53",
    title="A model stands on the GPU that device_ids names",
    source="torch/nn/parallel/distributed.py: device_ids moves inputs, the weights stay; NCCL: Duplicate GPU detected",
    leads_to=("duplicate-gpu",),
    bad=(
        _OWN.format("    net = torch.nn.Linear(4, 4).cuda()\n" + _WRAPPED),
        _OWN.format("    net = torch.nn.Linear(4, 4)\n    net.to('cuda')\n" + _WRAPPED),
        _OWN.format("    device = torch.device('cuda:0')\n    net = torch.nn.Linear(4, 4).to(device)\n" + _WRAPPED),
    ),
    good=(
        _OWN.format("    net = torch.nn.Linear(4, 4).cuda(rank)\n" + _WRAPPED),
        _OWN.format("    torch.cuda.set_device(rank)\n    net = torch.nn.Linear(4, 4).cuda()\n" + _WRAPPED),
        _OWN.format("    net = torch.nn.Linear(4, 4).cuda()\n    net = net.to(rank)\n" + _WRAPPED),
        _OWN.format("    net = torch.nn.Linear(4, 4).cuda()\n" + _WRAPPED.replace("[rank]", "[0]")),
        _OWN.format("    net = torch.nn.Linear(4, 4).cuda()\n" + _WRAPPED).replace(
            "dist.init_process_group", "tools.join"
        ),
    ),
)
def model_on_another_gpu(job: LintJob) -> Iterator[LintFinding]:
    """cuda() and "cuda" mean the first GPU until a process chooses another one; device_ids chooses none."""
    for code in codes(job):
        if "device_ids" not in code.text or _CURRENT.search(code.text) or next(inits(code), None) is None:
            continue  # where the group is begun, the process's GPU is chosen: in a module that is not read
        values = PythonValues(code)
        for call in code.calls:
            ids = argument(call, "device_ids", 1)
            wrapped = argument(call, "module", 0)
            if code.torch_name(call.func) != "DistributedDataParallel" or not isinstance(wrapped, ast.Name):
                continue
            if not isinstance(ids, ast.List) or len(ids.elts) != 1 or isinstance(values.value(ids.elts[0]), int):
                continue
            moves = [
                node
                for node in own_nodes(code.scope_of(call))
                if isinstance(node, ast.Call) and node.lineno < call.lineno and _moves(code, node, wrapped.id)
            ]
            if moves and all(_is_first(code, values, moved) for moved in moves):
                yield LintFinding(
                    span=code.span(moves[-1]),
                    summary=f"{wrapped.id} goes to GPU 0 on every rank; device_ids={ast.unparse(ids)} moves the inputs",
                    happens="NCCL ends with: Duplicate GPU detected; or weights and inputs are on different GPUs.",
                    fix=f"Write torch.cuda.set_device({ast.unparse(ids.elts[0])}) before the first cuda, or move"
                    f" {wrapped.id} to that device.",
                )


def _moves(code: PythonCode, call: ast.Call, name: str) -> bool:
    """Whether it moves what `name` names: `name.cuda()`, or `name = Net().to(...)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("cuda", "to"):
        return False
    above = code.parents.get(call)
    made = isinstance(above, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in above.targets
    )
    return made or (isinstance(call.func.value, ast.Name) and call.func.value.id == name)


def _is_first(code: PythonCode, values: PythonValues, call: ast.Call) -> bool:
    """cuda(), to("cuda"), to(device) of which the text says that it is that: GPU 0, where none was chosen."""
    if not call.args and not call.keywords:
        return isinstance(call.func, ast.Attribute) and call.func.attr == "cuda"
    if len(call.args) != 1 or call.keywords:
        return False
    place: ast.expr | None = call.args[0]
    if isinstance(place, ast.Name):
        place = values.behind(place) or place
    if isinstance(place, ast.Call) and code.torch_name(place.func) == "device" and len(place.args) == 1:
        place = place.args[0]
    return values.value(place) in ("cuda", "cuda:0")
