"""Rules of the GPU that a rank's model is on before it is wrapped: T23, T26."""

import ast
import re
from collections.abc import Iterator
from itertools import islice

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, processes
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.seats import SETS_RANKS
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, codes_and_starts, constant, own_nodes
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = (
    "import os\nimport torch\nimport torch.distributed as dist\nfrom torch.nn.parallel import DistributedDataParallel\n"
)
_JOINED = "dist.init_process_group('nccl')\n"
_TRAIN = "#@ file train.py\n" + _HEAD
_STARTED = "#@ every node\ntorchrun --standalone --nproc-per-node=4 train.py\n"
_FRAMEWORKS = ("lightning", "pytorch_lightning", "accelerate", "transformers", "deepspeed", "ray", "composer",
               "horovod", "megatron", "nemo", "fastai", "ignite", "colossalai", "trl", "mmengine",
               "detectron2")  # fmt: skip
"""They choose each rank's GPU themselves."""
_CHOOSES = lazy_re(
    r"set_device|LOCAL_RANK|local_?rank|CUDA_VISIBLE_DEVICES|device_id|cuda:\{|current_device|device_count"
    r"|\.cuda\(\s*\w|SLURM_LOCALID|OMPI_COMM|default_device|[\"']cuda:[\"']|device\([\"']cuda[\"'],|gloo|node_rank"
)
_PLACES = lazy_re(r"set_default_device|set_default_tensor_type|with torch\.device|import_module")
"""What puts a model on a GPU when it is made."""
_PLAIN = lazy_re(r"\.cuda\(\)|[\"']cuda[\"']|[\"']cuda:0[\"']")
MOST_WRAPS = 16
"""Of one text that are looked at: each is looked for in all of its scope."""
_WRAPS = ("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard")
_MAY_CHOOSE = lazy_re(
    r"set_device|CUDA_VISIBLE_DEVICES|device_ids?\b|default_device|default_tensor_type|cuda\.device\(|HIP_VISIBLE|gloo"
    r"|TrainingArguments|device_mesh"
)
_SETS_UP = lazy_re(r"dist|setup|init|device|env|launch|gpu|slurm|rank", re.IGNORECASE)
_SETS = 'Write torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before the first cuda.'


@rule(
    "T23",
    title="Each rank of a node takes a GPU of its own",
    source="torch.distributed's documentation: set_device for each process; NCCL: Duplicate GPU detected (measured)",
    leads_to=("duplicate-gpu",),
    bad=(
        _TRAIN
        + "dist.init_process_group('nccl')\nnet = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())\n"
        + _STARTED,
        _TRAIN
        + "dist.init_process_group()\nnet = DistributedDataParallel(torch.nn.Linear(4, 4).to('cuda'))\n"
        + _STARTED,
        _TRAIN + "import os\nclass Trainer:\n    def __init__(self):\n        dist.init_process_group('nccl')\n"
        "        self.local_rank = int(os.environ['LOCAL_RANK'])\n"
        "        self.net = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())\nTrainer()\n" + _STARTED,
        _TRAIN + "dist.init_process_group('nccl')\ntorch.cuda.set_device(1)\n"
        "net = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())\n" + _STARTED,
    ),
    good=(
        _TRAIN
        + "dist.init_process_group('nccl')\ntorch.cuda.set_device(dist.get_rank() % 4)\n"
        + "net = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())\n"
        + _STARTED,
        _TRAIN + "dist.init_process_group('gloo')\nnet = DistributedDataParallel(torch.nn.Linear(4, 4))\n" + _STARTED,
    ),
)
def no_gpu_chosen(job: LintJob) -> Iterator[LintFinding]:
    """cuda() and "cuda" mean the current GPU, which is GPU 0 until a process chooses another one."""
    for code, starts in codes_and_starts(job):
        several = any((processes.per_node(job, launch) or 0) > 1 for launch in starts)
        if not several or code.brings(*_FRAMEWORKS) or _CHOOSES.search(code.text):
            continue
        joins = any(code.torch_name(call.func) == "init_process_group" for call in code.calls)
        wraps = any(code.torch_name(call.func) in _WRAPS for call in code.calls)
        taken = next((call for call in code.calls if _PLAIN.search(code.words(call)) and not _nested(code, call)), None)
        if joins and wraps and taken is not None:
            yield LintFinding(
                span=code.span(taken),
                summary="no rank chooses a GPU: cuda is GPU 0 in each of them",
                happens="NCCL ends with: Duplicate GPU detected; or GPU 0 runs out of memory while others idle.",
                fix=_SETS,
            )
            return
    yield from _all_on_the_first(job)


def _all_on_the_first(job: LintJob) -> Iterator[LintFinding]:
    """Ranks of one node that each come to their current GPU, and have chosen none."""
    for each in courses(job):
        code = each.code
        if (fixed := _fixed(each) or _chosen_by_number(job, each)) is not None:
            yield fixed
            return
        if _MAY_CHOOSE.search(code.text) or code.brings(*(set(_FRAMEWORKS) - {"transformers"})) or _helped(code):
            continue
        called = {last_name(call.func) for call in code.calls}
        if any(name.endswith("Trainer") and name not in code.own for name in called):  # a library's
            continue
        if not code.is_whole():
            continue  # what is elsewhere may have chosen
        joins = [deed for deed in each.ranks[0].deeds if deed.what == "join" and deed.is_sure]
        found = [
            {id(deed.node): deed for deed in rank.deeds if deed.what == "current GPU" and deed.value == 0}
            for rank in each.ranks
            if rank.seat.node == 0
        ]
        first = next((deed for key, deed in found[0].items() if all(key in one for one in found)), None)
        if len(found) > 1 and joins and first is not None and each.ranks[0].backend in ("nccl", ""):
            yield LintFinding(
                span=code.span(first.node),
                summary="no rank chooses a GPU: this is GPU 0 in each of them",
                happens="GPU 0 holds the models of all ranks and runs out of memory while others idle; where NCCL is"
                " asked, it ends with: Duplicate GPU detected.",
                fix=_SETS,
            )
            return


def _fixed(each: Courses) -> LintFinding | None:
    """Another rank than the first of a node that moves something to GPU 0 by its number."""
    launcher = each.launch.launcher if each.launch is not None else ""
    joins = any(deed.what == "join" for deed in each.ranks[0].deeds) or each.code.brings("accelerate")
    if launcher not in SETS_RANKS or not joins or re.search(r"CUDA_VISIBLE|HIP_VISIBLE|gloo", each.code.text):
        return None
    for rank in each.ranks:
        if rank.seat.local == 0 or any(deed.what == "wrap" and deed.value != deed.more for deed in rank.deeds):
            continue
        for deed in rank.deeds:
            moves = isinstance(deed.node, ast.Call) and last_name(deed.node.func) in ("to", "cuda")
            if deed.what == "device" and deed.value == 0 and moves:
                return LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"rank {rank.seat.rank} puts this on GPU 0, as every rank does, and its own GPU is"
                    f" {rank.seat.local}",
                    happens="Tensors of two GPUs meet (Expected all tensors to be on the same device), or GPU 0 runs"
                    " out of memory.",
                    fix="Take the rank's own device: torch.device('cuda', local_rank).",
                    severity="warning",
                )
    return None


_OWN_GPU = lazy_re(r"(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES|gpu[-_]?bind|gloo")


def _chosen_by_number(job: LintJob, each: Courses) -> LintFinding | None:
    """set_device with the same number in all ranks of a node that see the same GPUs."""
    launch, here = each.launch, [rank for rank in each.ranks if rank.seat.node == 0]
    if launch is None or len(here) < 2 or each.ranks[0].backend not in ("nccl", ""):
        return None
    if launch.launcher == "srun":
        shown = processes.shown_gpus(launch)
        by_task = allocation.sees_own_gpus_only(job, launch) or allocation.binds_gpus(job, launch)
        if by_task or (here[0].seat.gpus or 0) < 2 or (shown is not None and shown.count < 2):
            return None
        if "VISIBLE_DEVICES" in each.code.text or (shown is None and "VISIBLE_DEVICES" in job.text):
            return None
    elif launch.launcher not in SETS_RANKS or _OWN_GPU.search(each.code.text):
        return None
    found = [
        {(id(deed.node), deed.value): deed for deed in rank.deeds
         if deed.what == "device" and deed.is_sure and type(deed.value) is int
         and isinstance(deed.node, ast.Call) and last_name(deed.node.func) == "set_device"}
        for rank in here
    ]  # fmt: skip
    joins = any(deed.what == "join" and deed.is_sure for deed in here[0].deeds)
    same = next((deed for key, deed in found[0].items() if all(key in one for one in found)), None)
    if same is None or not joins or any(len(one) > 1 for one in found):
        return None
    return LintFinding(
        span=each.code.span(same.node),
        summary=f"every rank of the node chooses GPU {same.value}, and all see the same GPUs",
        happens="NCCL ends with: Duplicate GPU detected; or this GPU runs out of memory while others idle.",
        fix=_SETS if launch.launcher != "srun" else "Take the rank's own: int(os.environ['SLURM_LOCALID']).",
    )


def _helped(code: PythonCode) -> bool:
    """A function of another file may have chosen."""
    own = (name for name, whole in code.imports.items() if not whole.startswith(("torch", "os.", "datetime")))
    return any(_SETS_UP.search(name) for name in own)


def _nested(code: PythonCode, call: ast.Call) -> bool:
    """Another call within it says the same, so that the smallest one is named."""
    inner = (node for node in walked(call) if isinstance(node, ast.Call) and node is not call)
    return any(_PLAIN.search(code.words(node)) for node in inner)


@rule(
    "T26",
    title="A model is on its GPU before DistributedDataParallel is told device_ids",
    source="torch/nn/parallel/distributed.py: device_ids and output_device only work with single-device GPU modules",
    bad=(
        _HEAD + "net = torch.nn.Linear(4, 4)\nnet = DistributedDataParallel(net, device_ids=[0])\n",
        _HEAD
        + "class Net(torch.nn.Module):\n    pass\ndef main(i):\n    model = Net()\n"
        + "    return DistributedDataParallel(model, device_ids=[i], output_device=i)\n",
    ),
    good=(
        _HEAD
        + _JOINED
        + "net = torch.nn.Linear(4, 4)\nnet.cuda()\nnet = DistributedDataParallel(net, device_ids=[0])\n",
        (_HEAD + _JOINED + "net = torch.nn.Linear(4, 4)\nnet = DistributedDataParallel(net)\n").replace("nccl", "gloo"),
        _HEAD
        + _JOINED
        + "net = torch.nn.Linear(4, 4, device='cuda')\nnet = DistributedDataParallel(net, device_ids=[0])\n",
    ),
)
def model_left_on_cpu(job: LintJob) -> Iterator[LintFinding]:
    """A module is made on the CPU. Nothing moves it but `.to(device)` or `.cuda()`."""
    for code in codes(job):
        if _PLACES.search(code.text):
            continue
        own = {node.name: node for node in code.nodes if isinstance(node, ast.ClassDef)}
        wraps = (call for call in code.calls if code.torch_name(call.func) == "DistributedDataParallel")
        for call in islice(wraps, MOST_WRAPS):
            ids = argument(call, "device_ids", 1)
            module = argument(call, "module", 0)
            if (
                code.torch_name(call.func) != "DistributedDataParallel"
                or ids is None
                or not isinstance(module, ast.Name)
            ):
                continue
            if constant(ids) is None and isinstance(ids, ast.Constant):
                continue
            scope = code.scope_of(call)
            names = [node for node in own_nodes(scope) if isinstance(node, ast.Name) and node.id == module.id]
            before = [node for node in names if node.lineno < call.lineno]
            made = [code.parents.get(node) for node in before if isinstance(node.ctx, ast.Store)]
            if len(before) != 1 or len(made) != 1 or not isinstance(made[0], ast.Assign):
                continue
            value = made[0].value
            if not isinstance(value, ast.Call) or any("device" in (keyword.arg or "") for keyword in value.keywords):
                continue
            cls = own.get(value.func.id) if isinstance(value.func, ast.Name) else None
            by_torch = code.name(value.func).startswith("torch.nn.") and "cuda" not in code.words(value)
            stays = cls is not None and not re.search(r"cuda|device", code.text_of(cls)) and not _given_parts(value)
            if (by_torch or stays) and "device" not in code.words(value) and not isinstance(ids, ast.IfExp):
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{module.id} is on the CPU (made in line {code.line_of(made[0])}, moved nowhere),"
                    " and device_ids is given",
                    happens="ValueError: DistributedDataParallel device_ids and output_device arguments only work with"
                    " single-device GPU modules.",
                    fix=f"Write {module.id} = {module.id}.to(device) before;"
                    " or leave device_ids out for a CPU training.",
                )
                return
    yield from _wrapped_on_the_cpu(job)


def _wrapped_on_the_cpu(job: LintJob) -> Iterator[LintFinding]:
    """The same, of a model that comes from a function."""
    for each in courses(job):
        if _PLACES.search(each.code.text):
            continue
        for deed in each.ranks[0].deeds:
            if deed.what == "wrapped on the CPU" and deed.is_sure:
                yield LintFinding(
                    span=each.code.span(deed.node),
                    summary=f"the model is on the CPU (nothing has moved it so far), and {deed.value}",
                    happens="ValueError: DistributedDataParallel device_ids and output_device arguments only work with"
                    " single-device GPU modules."
                    if deed.value.startswith("device_ids")
                    else "RuntimeError: No backend type associated with device type cpu.",
                    fix="Move it before it is wrapped: model.to(device); or leave device_ids out for a CPU training.",
                )
                return


def _given_parts(call: ast.Call) -> bool:
    """A model that is made of others: they may be on a GPU already."""
    given = (*call.args, *(each.value for each in call.keywords))
    plain = re.compile(
        r"(?:.*_)?(?:config|cfg|conf|args|opts?|hparams|size|dim|classes|vocab|num\w*|n\w{0,4}|in\w*|out\w*)"
    )
    names = [each.id for each in given if isinstance(each, ast.Name)]
    made = any(isinstance(each, (ast.Call, ast.Starred)) for each in given)
    return made or not all(plain.fullmatch(name) for name in names)
