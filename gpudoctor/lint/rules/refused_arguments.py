"""Rules of what constructors and DeepSpeed's file are told together: T70, T71, D11, D12."""

import ast
from collections.abc import Iterator
from itertools import islice

from gpudoctor.knowledge.read_refusals import made_classes
from gpudoctor.knowledge.refused_calls import CALLEES
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import processes
from gpudoctor.lint.called_with import flattened, of_call, start_of
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.python_values import UNDECIDED, PythonValues
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.exclusive_options import deepspeed_files
from gpudoctor.lint.rules.training_files import of_rows
from gpudoctor.lint.told_files import everywhere, of_file
from gpudoctor.lint.told_options import world_of
from gpudoctor.lint.told_together import ToldTogether

MOST_CALLS = 64
"""Of one program that are asked about."""
MOST_LINES = 2_000
"""Calls of one program whose names are looked at."""
MOST_POSITIONAL = 2
"""What comes first without a name is data, model, batch size; further ones may be what a row asks for."""
_TRAINER = "import lightning as L\nclass Net(L.LightningModule):\n    def __init__(self):\n        {}\n"
_MANUAL = "self.automatic_optimization = False"
_LOADER = "from torch.utils.data import DataLoader\nloader = DataLoader(data, {})\n"
_DDP = (
    "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    "y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant={})\n"
    "net = DDP(net, device_ids=[0], find_unused_parameters=True)\n"
)
_KEYS = {name: lazy_re(pattern) for name, pattern in CALLEES.items()}


@rule(
    "T70",
    title="A constructor is given no arguments that it refuses together",
    source="the sources of lightning, accelerate, torch, transformers and vLLM: a row for each check of theirs in"
    " knowledge/refused_calls.py and refusals/calls.txt",
    leads_to=("program-error",),
    bad=(
        _TRAINER.format(_MANUAL) + "trainer = L.Trainer(gradient_clip_val=1.0)\n",
        _TRAINER.format("pass") + "trainer = L.Trainer(strategy='fsdp', gradient_clip_val=1.0)\n",
        _LOADER.format("persistent_workers=True"),
        _LOADER.format("batch_sampler=torch.utils.data.BatchSampler(order, 8, True), shuffle=True"),
        _DDP.format(True),
        "import torch\nstep = torch.optim.SGD(net.parameters(), 0.1, nesterov=True)\n",
        "from peft import LoraConfig\nlora = LoraConfig(r=8, use_dora=True, lora_bias=True)\n",
        "import torch\nwarm = torch.optim.lr_scheduler.LinearLR(step, 0, total_iters=100)\n",
    ),
    good=(
        _TRAINER.format("pass") + "trainer = L.Trainer(gradient_clip_val=1.0)\n",
        _TRAINER.format(_MANUAL) + "trainer = L.Trainer(gradient_clip_val=None)\n",
        _LOADER.format("persistent_workers=True, num_workers=workers"),
        _LOADER.format("batch_size=8, shuffle=True"),
        _DDP.format(False),
        "import torch\nstep = torch.optim.SGD(net.parameters(), 0.1, 0.9, nesterov=True)\n",
        "import torch\nstep = torch.optim.SGD(net.parameters(), 0.1, *more, nesterov=True)\n",
        "from peft import LoraConfig\nlora = LoraConfig(r=8, use_dora=True)\n",
    ),
)
def arguments_refused_together(job: LintJob) -> Iterator[LintFinding]:
    """Libraries check what they are given before anything is trained, and end with an error where two arguments exclude
    each other, or one needs another."""
    yield from _calls(job, is_silent=False)


@rule(
    "T71",
    title="A constructor is given no argument that it then passes over",
    severity="warning",
    source="lightning 2.6, accelerator_connector.py; DeepSpeed 0.19, zero/config.py: offload_param is of stage 3",
    bad=(
        _TRAINER.format("pass") + "trainer = L.Trainer(accelerator='cpu', precision='16-mixed')\n",
        "from accelerate.utils import DeepSpeedPlugin\nplugin = DeepSpeedPlugin(offload_param_device='cpu')\n",
    ),
    good=(
        _TRAINER.format("pass") + "trainer = L.Trainer(accelerator='gpu', precision='16-mixed')\n",
        "from accelerate.utils import DeepSpeedPlugin\n"
        "plugin = DeepSpeedPlugin(zero_stage=3, offload_param_device='cpu')\n",
    ),
)
def arguments_passed_over(job: LintJob) -> Iterator[LintFinding]:
    """What is written is taken without an error, and something else is done."""
    yield from _calls(job, is_silent=True)


def _calls(job: LintJob, *, is_silent: bool) -> Iterator[LintFinding]:
    for code, starts in codes_and_starts(job):
        launch = start_of(starts)
        named = ((call, _callee(code, call)) for call in code.calls)
        for call, callee in islice(((call, name) for call, name in named if name), MOST_CALLS):
            given = of_call(code, call, launch)
            given.facts |= _facts(job, code, call, launch)
            given.is_whole = given.is_whole and len(call.args) <= MOST_POSITIONAL
            yield from of_rows(callee, given, is_silent=is_silent)
        for call in islice(code.calls, MOST_LINES) if not is_silent else ():
            name = _made(code, call)
            if name:
                positions = made_classes()[name].positions
                given = of_call(code, call, launch, positions)
                given.is_whole = given.is_whole and len(call.args) <= max(len(positions), MOST_POSITIONAL)
                yield from of_rows(name, given, is_silent=False)
        if (whole := _of_nemo(code, launch)) is not None:
            yield from of_rows("nemo", whole, is_silent=is_silent)


_NEMO = ("MegatronStrategy", "Trainer")
_COUNTS = ("devices", "num_nodes")
"""Where no start is given, the default of an option that says one of them is what nobody need take."""


def _of_nemo(code: PythonCode, launch: LintLaunch | None) -> ToldTogether | None:
    """What NeMo's strategy, trainer, model and data say together; each of them once in the program."""
    if not code.brings("nemo") or "MegatronStrategy" not in code.text:
        return None
    parts = {name: [call for call in code.calls if last_name(call.func) == name] for name in _NEMO}
    models = [call for call in code.calls if argument(call, "num_layers") is not None]
    data = [call for call in code.calls if argument(call, "global_batch_size") is not None]
    if any(len(calls) != 1 for calls in parts.values()) or len(models) > 1 or len(data) > 1:
        return None
    whole = ToldTogether({}, True, {}, code)
    for call in (*data, *models, parts["MegatronStrategy"][0], parts["Trainer"][0]):
        given = of_call(code, call, launch)
        whole.options |= given.options
        whole.facts |= given.facts
        whole.is_whole = whole.is_whole and given.is_whole
    devices, nodes = (whole.value(name, {"num_nodes": 1}) for name in _COUNTS)
    told = launch is not None or not any(
        isinstance(argument(parts["Trainer"][0], name), ast.Attribute) for name in _COUNTS
    )
    known = told and isinstance(devices, int) and isinstance(nodes, int) and devices > 0
    whole.facts["world"] = devices * nodes if known else UNDECIDED  # type: ignore[operator]
    return whole


def _callee(code: PythonCode, call: ast.Call) -> str:
    name = code.name(call.func)
    last = name.rpartition(".")[2]
    known = _KEYS.get("FullyShardedDataParallel" if last == "FSDP" else last)
    return last if known is not None and known.fullmatch(name) else ""


def _made(code: PythonCode, call: ast.Call) -> str:
    """Its name in the table of classes that refuse something; empty for all others."""
    name = code.name(call.func)
    package, _, rest = name.partition(".")
    key = f"{_PACKAGES.get(package, package)}.{rest.rpartition('.')[2]}"
    return key if key in made_classes() else ""


_PACKAGES = {"pytorch_lightning": "lightning"}


def _facts(job: LintJob, code: PythonCode, call: ast.Call, launch: LintLaunch | None) -> dict[str, object]:
    count = (processes.per_node(job, launch) or world_of(job, launch)) if launch is not None else None
    above = code.parents.get(call)
    targets = above.targets if isinstance(above, ast.Assign) else []
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    compiled = any(
        code.name(each.func) == "torch.compile" and each.args and isinstance(each.args[0], ast.Name)
        and each.args[0].id in names and each.lineno > call.lineno
        for each in code.calls
    )  # fmt: skip
    told = launch.option("use-fsdp") or everywhere(job, launch).get("fsdp") if launch is not None else None
    return {
        "several": count > 1 if count else UNDECIDED,
        "compiled": compiled,
        "world": count or UNDECIDED,
        "fsdp": told is not None,
        "conditional": code.is_conditional(call),
    }


_ZERO = (
    "deepspeed --num_gpus 4 t.py --deepspeed_config ds.json\n#@ file t.py\nimport deepspeed\nimport torch\n"
    "optimizer = {}(net.parameters())\nengine, *_ = deepspeed.initialize(args=args, model=net, optimizer=optimizer)\n"
    '#@ file ds.json\n{{\n  "train_micro_batch_size_per_gpu": 4,\n  "zero_optimization": {{"stage": {}, {}}}\n}}\n'
)
_CPU = '"offload_{}": {{"device": "cpu"}}'


@rule(
    "D11",
    title="DeepSpeed's file asks for nothing that DeepSpeed refuses together",
    source="DeepSpeed 0.19, runtime/config.py, zero/config.py, pipe/engine.py, engine.py: rows of deepspeed in"
    " knowledge/refused_training.py",
    leads_to=("program-error",),
    bad=(
        _ZERO.format("torch.optim.AdamW", 2, _CPU.format("optimizer")),
        _ZERO.format("net.layers = deepspeed.pipe.PipelineModule", 2, '"overlap_comm": true'),
    ),
    good=(
        _ZERO.format("deepspeed.ops.adam.DeepSpeedCPUAdam", 2, _CPU.format("optimizer")),
        _ZERO.format("net.layers = deepspeed.pipe.PipelineModule", 1, '"overlap_comm": true'),
        _ZERO.format("torch.optim.AdamW", 2, '"overlap_comm": true'),
        _ZERO.format("torch.optim.AdamW", 2, '"offload_optimizer": {"device": "$WHERE"}'),
    ),
)
def deepspeed_refuses(job: LintJob) -> Iterator[LintFinding]:
    """DeepSpeed checks its configuration when the engine is made, against itself and the program."""
    for given in _configurations(job):
        yield from of_rows("deepspeed", given, is_silent=False)


@rule(
    "D12",
    title="DeepSpeed's file asks for nothing that is then passed over",
    severity="warning",
    source="DeepSpeed 0.19, runtime/zero/config.py: offload_param is valid with stage 3 alone",
    bad=(
        _ZERO.format("torch.optim.AdamW", 2, _CPU.format("param")),
        _ZERO.format("torch.optim.AdamW", 1, _CPU.format("param")),
    ),
    good=(
        _ZERO.format("torch.optim.AdamW", 3, _CPU.format("param")),
        _ZERO.format("torch.optim.AdamW", 2, '"offload_param": {"device": "none"}'),
    ),
)
def deepspeed_passes_over(job: LintJob) -> Iterator[LintFinding]:
    """What the chosen stage does not know is read without a word, and never used: the memory is not saved."""
    for given in _configurations(job):
        yield from of_rows("deepspeed", given, is_silent=True)


def _configurations(job: LintJob) -> Iterator[ToldTogether]:
    """DeepSpeed's files, and the mappings that programs give it."""
    for launch, section in deepspeed_files(job):
        program = next((code for code, starts in codes_and_starts(job) if launch in starts), None)
        given = ToldTogether(of_file(section), True, {"client_optimizer": _optimizer(program)}, program)
        if given.options:
            yield given
    for code, starts in codes_and_starts(job):
        for call in code.calls:
            if code.name(call.func) != "deepspeed.initialize":
                continue
            config = argument(call, "config") or argument(call, "config_params")
            if config is not None and (mapped := flattened(code, config, start_of(starts))).options:
                mapped.facts["client_optimizer"] = _optimizer(code)
                yield mapped


def _optimizer(code: PythonCode | None) -> object:
    """The whole name of what makes the optimizer that deepspeed.initialize is given; None where it is given none."""
    calls = [call for call in code.calls if code.name(call.func) == "deepspeed.initialize"] if code else []
    if code is None or len(calls) != 1:
        return UNDECIDED
    given = argument(calls[0], "optimizer")
    if isinstance(given, ast.Name):
        given = PythonValues(code).behind(given) or _bound_before(code, given.id, calls[0].lineno)
    if given is None:
        return None if argument(calls[0], "optimizer") is None else UNDECIDED
    return (code.name(given.func) if isinstance(given, ast.Call) else "") or UNDECIDED


def _bound_before(code: PythonCode, name: str, line: int) -> ast.expr | None:
    """What a name is bound to by the one assignment before a line: the engine's own result often takes it anew."""
    bound = [
        node.value
        for node in code.nodes
        if isinstance(node, ast.Assign) and node.lineno < line
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]  # fmt: skip
    return bound[0] if len(bound) == 1 else None
