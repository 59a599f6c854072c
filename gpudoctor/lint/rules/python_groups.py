"""Rules of who makes the process group of a program: T35, T36, T52."""

import ast
import difflib
import re
import sys
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.courses.programs import courses
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, codes_and_starts, own_nodes
from gpudoctor.lint.python_text import without_imports
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = "#@ file train.py\nimport torch\nimport torch.distributed as dist\n"
_RUN = "#@ every node\ntorchrun --standalone --nproc-per-node=2 train.py\n"
_WRAP = "from torch.nn.parallel import DistributedDataParallel\nnet = torch.nn.Linear(4, 4)\n"
_RAY = (
    "from ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer, prepare_model\n"
    "import torch.distributed as dist\ndef loop(config):\n    {}\n    train()\n"
    "TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=4, use_gpu=True)).fit()\n"
)
_ASKS = lazy_re(r"is_initialized|destroy_process_group|is_torchelastic_launched")
_MAKERS = {
    "torch.distributed.init_process_group": "init_process_group",
    "deepspeed.init_distributed": "deepspeed.init_distributed",
    "accelerate.Accelerator": "Accelerator",
    "accelerate.PartialState": "PartialState",
}
"""Calls behind which the group is there. All but the first do nothing where it is there already."""
_OWN_GROUP = lazy_re(
    r"init_process_group|init_distributed|init_device_mesh|Accelerator|PartialState|initialize|Fabric|\bhvd\b|setup_dist"
    r"|parallel_state|init_(?:dist|torch|group|process|env|rank|parallel)|MPI\b|exec\(|import_module"
)
_KNOWN = frozenset(
    (*sys.stdlib_module_names, "torch", "torchvision", "torchaudio", "torchtext", "numpy", "tqdm", "PIL", "pandas",
     "scipy", "sklearn", "matplotlib", "wandb", "einops", "timm", "cv2", "datasets", "tensorboardX", "yaml", "h5py",
     "torchmetrics", "tensorboard", "psutil", "rich", "requests")
)  # fmt: skip
"""Packages that make no process group."""
_WRAPS = ("DistributedDataParallel", "FullyShardedDataParallel")


@rule(
    "T35",
    title="The process group is made once",
    source="torch 2.13: trying to initialize the default process group twice! (tried); ray 2.40, train/torch/config.py:"
    " init_process_group before the loop; accelerate/state.py; deepspeed/comm",
    leads_to=("program-error",),
    bad=(
        _RAY.format("dist.init_process_group('nccl')"),
        _HEAD
        + "from accelerate import Accelerator\naccelerator = Accelerator()\ndist.init_process_group('nccl')\n"
        + _RUN,
        _HEAD + "import deepspeed\ndeepspeed.init_distributed()\ndist.init_process_group('nccl')\n" + _RUN,
    ),
    good=(
        _RAY.format("model = prepare_model(net)"),
        _HEAD
        + "from accelerate import Accelerator\ndist.init_process_group('nccl')\naccelerator = Accelerator()\n"
        + _RUN,
        _HEAD + "if not dist.is_initialized():\n    dist.init_process_group('nccl')\n" + _RUN,
    ),
)
def group_made_twice(job: LintJob) -> Iterator[LintFinding]:
    """torch refuses a second default group. Ray Train makes one before it calls the loop, accelerate with its
    Accelerator, DeepSpeed in init_distributed."""
    for code in codes(job):
        if _ASKS.search(code.text):
            continue
        yield from _in_loops_of_ray(code)
    for each in courses(job):  # two calls of init_process_group are told by U17
        if len(each.ranks) < 2 or _ASKS.search(each.code.text):
            continue
        calls = [deed for deed in each.ranks[0].deeds if deed.what == "called" and deed.is_sure]
        makers = [deed for deed in calls if deed.value.name in _MAKERS]
        joins = [deed.node for deed in makers if deed.value.name == "torch.distributed.init_process_group"]
        if joins and makers[0].node is not joins[0] and isinstance(joins[0], ast.Call):
            yield _twice(each.code, joins[0], f"{_MAKERS[makers[0].value.name]}() has made the process group before")


def _in_loops_of_ray(code: PythonCode) -> Iterator[LintFinding]:
    for call in code.calls:
        name = code.name(call.func)
        loop = argument(call, "train_loop_per_worker", 0)
        if not (name.startswith("ray.") and name.endswith(".TorchTrainer")) or not isinstance(loop, ast.Name):
            continue
        function = code.functions.get(loop.id)
        for inner in _reached(code, function) if function is not None else ():
            if code.name(inner.func) == "torch.distributed.init_process_group" and not code.is_conditional(inner):
                yield _twice(code, inner, f"Ray Train makes the process group before it calls {loop.id}()")


def _reached(code: PythonCode, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Call]:
    """The calls of a function, and of those that it calls itself."""
    for node in own_nodes(function):
        if isinstance(node, ast.Call):
            yield node
            inner = code.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
            if inner is not None and inner is not function:
                yield from (each for each in own_nodes(inner) if isinstance(each, ast.Call))


def _twice(code: PythonCode, call: ast.Call, why: str) -> LintFinding:
    return LintFinding(
        span=code.span(call),
        summary=f"{why}, and init_process_group makes it once more",
        happens="ValueError: trying to initialize the default process group twice.",
        fix="Take this call out; rank and world size are those of the group that is there.",
    )


@rule(
    "T36",
    title="A model is wrapped when the process group is there",
    source="tried with torch 2.13: Default process group has not been initialized",
    leads_to=("program-error",),
    bad=(
        _HEAD + _WRAP + "net = DistributedDataParallel(net)\n" + _RUN,
        _HEAD + _WRAP + "def main():\n    model = DistributedDataParallel(net)\nmain()\n" + _RUN,
        _HEAD.partition("\n")[2] + _WRAP + "net = DistributedDataParallel(net)\n",
        _HEAD + _WRAP + "net = DistributedDataParallel(net)\ndist.init_process_group('nccl')\n" + _RUN,
        _HEAD
        + _WRAP
        + "def main():\n    model = DistributedDataParallel(net)\n    dist.init_process_group('nccl')\nmain()\n"
        + _RUN,
    ),
    good=(
        _HEAD + _WRAP + "dist.init_process_group('gloo')\nnet = DistributedDataParallel(net)\n" + _RUN,
        _HEAD + _WRAP + "from mine import setup\nsetup()\nnet = DistributedDataParallel(net)\n" + _RUN,
        _HEAD
        + _WRAP
        + "def wrapped():\n    return DistributedDataParallel(net)\ndist.init_process_group('gloo')\nwrapped()\n"
        + _RUN,
        _HEAD + _WRAP + "if args.distributed:\n    net = DistributedDataParallel(net)\n",
    ),
)
def wrapped_without_a_group(job: LintJob) -> Iterator[LintFinding]:
    """A launcher sets variables; the group that DistributedDataParallel talks over is made by init_process_group."""
    for code, starts in codes_and_starts(job):
        yield from _wrapped_too_early(code)
        is_started = any(look.traits(each).sets_ranks for each in starts)
        if not code.brings("torch") or _OWN_GROUP.search(code.text) or not (is_started or code.is_whole()):
            continue
        if any(not each or each.lstrip(".").partition(".")[0] not in _KNOWN for each in code.imports.values()):
            continue  # another file may make it
        if any(value.startswith(".") for value in code.imports.values()):
            continue
        for call in code.calls:
            if code.torch_name(call.func) in _WRAPS and argument(call, "process_group") is None:
                if code.is_conditional(call) and (not is_started or "is_initialized" in code.text):
                    continue  # `if args.distributed:`, of one process
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{code.torch_name(call.func)} wraps a model, and nothing makes a process group",
                    happens="Every rank ends: ValueError, Default process group has not been initialized.",
                    fix="Call torch.distributed.init_process_group('nccl') before; torchrun starts the ranks.",
                )
                break


def _wrapped_too_early(code: PythonCode) -> Iterator[LintFinding]:
    """One scope wraps, and further down makes the only group of the text."""
    made = [call for call in code.calls if code.torch_name(call.func) == "init_process_group"]
    if len(made) != 1 or len(_OWN_GROUP.findall(without_imports(code.text))) != 1 or code.is_conditional(made[0]):
        return
    scope = code.scope_of(made[0])
    for call in code.calls:
        if code.torch_name(call.func) not in _WRAPS or code.scope_of(call) is not scope or code.is_conditional(call):
            continue
        if call.lineno < made[0].lineno and argument(call, "process_group") is None:
            yield LintFinding(
                span=code.span(call),
                summary=f"{code.torch_name(call.func)} wraps a model before line {code.line_of(made[0])} makes"
                " the process group",
                happens="Every rank ends: ValueError, Default process group has not been initialized.",
                fix="Call init_process_group before the model is wrapped.",
            )


_BACKENDS = ("nccl", "gloo", "mpi", "ucc", "xccl", "ccl", "hccl", "cncl", "eccl", "mccl", "smddp", "xla", "fake", "tcp",
             "undefined", "flagcx", "threaded", "dummy", "mooncake")  # fmt: skip
_CALL = _HEAD + "dist.init_process_group({})\n" + _RUN


@rule(
    "T52",
    title="A process group has a backend that torch knows",
    source="torch/distributed/distributed_c10d.py, BackendConfig: Invalid backend; tried with torch 2.13",
    leads_to=("program-error",),
    bad=(_CALL.format("'ncll'"), _CALL.format("backend='cuda'")),
    good=(_CALL.format("'NCCL'"), _CALL.format("'cpu:gloo,cuda:nccl'"), _CALL.format("'mine'")),
)
def no_such_backend(job: LintJob) -> Iterator[LintFinding]:
    """A name that is nearly one of torch's, or the name of a device, is the backend of nobody."""
    for code, starts in codes_and_starts(job):
        values = PythonValues(code, starts[0] if len(starts) == 1 else None)
        for call in code.calls:
            told = argument(call, "backend", 0) if code.torch_name(call.func) == "init_process_group" else None
            name = values.value(told) if told is not None else None
            if told is None or not isinstance(name, str) or ":" in name or name.lower() in _BACKENDS:
                continue
            near = next(iter(difflib.get_close_matches(name.lower(), _BACKENDS[:3], 1, 0.6)), "")
            if not near and name.lower() not in ("cuda", "gpu", "cpu", "ddp", "env", "env://", "pytorch", "torch"):
                continue
            if re.search(rf"register_backend|import {re.escape(name)}", code.text):
                continue
            better = near or ("gloo" if name.lower() == "cpu" else "nccl")
            yield LintFinding(
                span=code.span(told),
                summary=f'"{name}" is no backend of torch.distributed',
                happens="ValueError: Invalid backend, or the backend is not there (AttributeError), on every rank.",
                fix=f'Write "{better}".',
            )
