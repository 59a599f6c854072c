"""Rules of calls of torch that leave something out: T78, T93 to T96, and of data sets on a GPU: U16."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.programs import COLLECTIVES
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, constant, has_stars
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import LintFinding, rule

_SCALED = (
    "import torch\nscaler = torch.amp.GradScaler('cuda')\nfor i, x in enumerate(data()):\n"
    "    scaler.scale(net(x).sum()).backward()\n"
)
_GROUP = "import torch\nimport torch.distributed as dist\ndist.init_process_group('nccl')\nx = torch.ones(4).cuda()\n"
_MESH = (
    "import torch\nfrom torch.distributed.device_mesh import init_device_mesh\n"
    "from torch.utils.data import DataLoader, DistributedSampler\n"
    "mesh = init_device_mesh('cuda', {}, mesh_dim_names={})\nsampler = DistributedSampler(data{})\n"
)
_SAME_DATA = frozenset(("tp", "pp", "cp", "sp", "tensor", "pipe", "pipeline", "context", "sequence", "model", "mp"))
"""Usual names of a mesh's dimensions along which ranks work on one batch."""
_NET = (
    "import torch\nfrom torch import nn\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    "torch.distributed.init_process_group('gloo')\n"
    "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.stem = nn.Linear(4, 4)\n"
    "        self.aux = nn.Linear(4, 4)\n    def forward(self, x):\n        return {}\n"
    "net = DDP(Net(){})\n"
)
_LAYERS = lazy_re(
    r"torch\.nn\.(?:Linear|Conv\d?d|ConvTranspose\d?d|Embedding|EmbeddingBag|LSTM|GRU|RNN|LayerNorm|GroupNorm|BatchNorm\dd"
    r"|MultiheadAttention|Transformer\w*|Bilinear|Parameter|PReLU)"
)
_WRAPPER = lazy_re(r"torch\.nn\.(?:parallel\.)?DistributedDataParallel")


@rule(
    "T93",
    title="A GradScaler unscales once for each step, and is updated behind it",
    source="torch/amp/grad_scaler.py of torch 2.13: unscale_() has already been called on this optimizer since the last"
    " update(); step() has already been called since the last update()",
    leads_to=("program-error",),
    bad=(
        _SCALED + "    scaler.unscale_(opt)\n    if i % 4 == 3:\n        scaler.step(opt)\n        scaler.update()\n",
        _SCALED + "    scaler.step(opt)\n",
        _SCALED.replace("scaler.scale(net(x).sum())", "net(x).sum()") + "    scaler.step(opt)\n    scaler.update()\n",
    ),
    good=(
        _SCALED
        + "    if i % 4 == 3:\n        scaler.unscale_(opt)\n        scaler.step(opt)\n        scaler.update()\n",
        _SCALED + "    scaler.unscale_(opt)\n    scaler.step(opt)\n    scaler.update()\n",
        _SCALED + "    if i % 4 != 3:\n        continue\n    scaler.unscale_(opt)\n    scaler.step(opt)\n"
        "    scaler.update()\n",
    ),
)
def scaler_out_of_turn(job: LintJob) -> Iterator[LintFinding]:
    """update() begins the next step of the scaler: without it a second unscale_ or step is refused."""
    for code in codes(job):
        scalers = _made(code, "GradScaler")
        for name in scalers:
            calls = {
                method: [call for call in code.calls if _is_method(code, call, name, method)]
                for method in ("unscale_", "step", "update")
            }
            stepped = [call for call in calls["step"] if _loop(code, call) is not None]
            handed = re.search(rf"[(,=]\s*{re.escape(name)}\s*[,)]", code.text) is not None
            if stepped and not calls["update"] and not handed:
                yield LintFinding(
                    span=code.span(stepped[0]),
                    summary=f"{name}.step is called in a loop, and {name}.update never",
                    happens="RuntimeError at the second step: step() has already been called since the last update().",
                    fix=f"Call {name}.update() behind the step.",
                )
            scaled = any(_is_method(code, call, name, "scale") for call in code.calls)
            if calls["step"] and calls["update"] and not scaled and not handed:
                yield LintFinding(
                    span=code.span(calls["step"][0]),
                    summary=f"{name} steps, and no loss is scaled: {name}.scale(loss) goes backward nowhere",
                    happens="AssertionError: No inf checks were recorded for this optimizer (or _scale is None).",
                    fix=f"Write {name}.scale(loss).backward().",
                )
            for call in calls["unscale_"]:
                loop = _loop(code, call)
                updates = [each for each in calls["update"] if _loop(code, each) is loop]
                if loop is None or _conditions(code, call, loop) or not updates or len(updates) != len(calls["update"]):
                    continue
                if all(_conditions(code, each, loop) for each in updates) and not _skips(loop, call, updates):
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"{name}.unscale_ is called in each turn of the loop, and {name}.update on a condition"
                        f" alone, line {code.line_of(updates[0])}",
                        happens="RuntimeError in the next turn: unscale_() has already been called on this optimizer"
                        " since the last update().",
                        fix="Unscale and clip below the same condition, right before the step.",
                    )


def _made(code: PythonCode, kind: str) -> list[str]:
    """Names that are bound to what a class of torch makes."""
    return list(
        dict.fromkeys(
            ast.unparse(node.targets[0])
            for node in code.nodes
            if isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], (ast.Name, ast.Attribute))
            and isinstance(node.value, ast.Call)
            and code.torch_name(node.value.func) == kind
            and constant(argument(node.value, "enabled")) is not False
        )
    )


def _is_method(code: PythonCode, call: ast.Call, name: str, method: str) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == method and code.words(call.func.value) == name


def _loop(code: PythonCode, node: ast.AST) -> ast.AST | None:
    for above in code.around(node):
        if isinstance(above, FUNCTIONS):
            return None
        if isinstance(above, (ast.For, ast.While)):
            return above
    return None


def _conditions(code: PythonCode, node: ast.AST, loop: ast.AST) -> list[ast.AST]:
    """Around it, inside of the loop."""
    found: list[ast.AST] = []
    for above in code.around(node):
        if above is loop:
            break
        if isinstance(above, (ast.If, ast.Try, ast.With)):
            found += [above] if not isinstance(above, ast.With) else []
    return found


def _skips(loop: ast.AST, call: ast.Call, updates: list[ast.Call]) -> bool:
    """Something leaves the turn before it, or it is updated otherwise."""
    return any(
        isinstance(node, (ast.Continue, ast.Break)) and node.lineno < updates[-1].lineno for node in walked(loop)
    )


@rule(
    "T94",
    title="What works in the background is waited for",
    severity="warning",
    source="torch.distributed, async_op=True: the result is there when the work's wait() says so",
    bad=(
        _GROUP + "dist.all_reduce(x, async_op=True)\nprint(x / 4)\n",
        _GROUP + "def mean():\n    dist.broadcast(x, src=0, async_op=True)\n    return x.mean()\n",
    ),
    good=(
        _GROUP + "work = dist.all_reduce(x, async_op=True)\nwork.wait()\n",
        _GROUP + "dist.all_reduce(x, async_op=True).wait()\n",
        _GROUP + "dist.all_reduce(x, async_op=True)\ntorch.cuda.synchronize()\n",
    ),
)
def work_thrown_away(job: LintJob) -> Iterator[LintFinding]:
    """Whoever does not keep the work that the call gives back cannot wait for it: the tensor may be read too early."""
    for code in codes(job):
        for node in code.nodes:
            call = node.value if isinstance(node, (ast.Expr, ast.Assign)) else None
            if not isinstance(call, ast.Call):
                continue
            whole, name = code.name(call.func), last_name(call.func)
            waits = constant(argument(call, "async_op")) is True and name in COLLECTIVES
            if not whole.startswith("torch.distributed.") or not (waits or name == "irecv"):
                continue
            if isinstance(node, ast.Assign) and not _is_kept_in_vain(code, node):
                continue
            scope = code.scope_of(call)
            words = code.text if isinstance(scope, ast.Module) else ast.unparse(scope)
            if "synchronize" not in words and "coalesc" not in words and "barrier" not in words:
                yield LintFinding(
                    span=code.span(call),
                    summary=f"dist.{last_name(call.func)} works in the background, and nobody keeps what to wait for",
                    happens="The tensor is read while it may still be changed: numbers are wrong now and then.",
                    fix="Leave async_op out, or keep the work and call its wait() before the tensor is read.",
                )
                break


def _is_kept_in_vain(code: PythonCode, node: ast.Assign) -> bool:
    """It has a name, and nothing uses that."""
    if not isinstance(node.targets[0], ast.Name) or len(node.targets) > 1:
        return False
    name, scope = node.targets[0].id, code.scope_of(node)
    return not any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load) for each in walked(scope)
    )


@rule(
    "T95",
    title="Ranks that work on one batch together get the same batch",
    severity="warning",
    source="torch.distributed.tensor.parallel: inputs are the same on all ranks of the mesh's dimension;"
    " torch/utils/data/distributed.py: num_replicas is the world size where it is not told",
    bad=(
        _MESH.format("(2, 4)", "('dp', 'tp')", ""),
        _MESH.format("(2, 2, 2)", "('pp', 'dp', 'cp')", ", shuffle=True"),
    ),
    good=(
        _MESH.format("(2, 4)", "('dp', 'tp')", ", num_replicas=2, rank=mesh['dp'].get_local_rank()"),
        _MESH.format("(2, 4)", "('replicate', 'shard')", ""),
        _MESH.format("(8, 1)", "('dp', 'tp')", ""),
    ),
)
def sampler_of_all_ranks_of_a_mesh(job: LintJob) -> Iterator[LintFinding]:
    """A sampler that is told nothing cuts the data for each rank of the world, so that those of one tensor-parallel
    group compute with parts of different batches."""
    for code in codes(job):
        meshes = [call for call in code.calls if last_name(call.func) == "init_device_mesh"]
        names = {
            name
            for call in meshes
            for name, size in zip(_texts(argument(call, "mesh_dim_names")), _sizes(argument(call, "mesh_shape", 1)),
                                  strict=False)
            if name in _SAME_DATA and size != 1
        }  # fmt: skip
        for call in code.calls if names else ():
            told = argument(call, "num_replicas", 1)
            if code.torch_name(call.func) == "DistributedSampler" and told is None and not has_stars(call):
                yield LintFinding(
                    span=code.span(call),
                    summary="this sampler cuts the data for every rank of the world, also for those of one"
                    f" {' and '.join(sorted(names))} group",
                    happens="Ranks that work on one batch together get different ones: the loss is of nothing.",
                    fix='Give it num_replicas=mesh["dp"].size(), rank=mesh["dp"].get_local_rank().',
                )


def _texts(node: ast.expr | None) -> list[str]:
    value = constant(node)
    return [each for each in value if isinstance(each, str)] if isinstance(value, (tuple, list)) else []


def _sizes(node: ast.expr | None) -> list[object]:
    """Of a shape as it is written; None of what is no number."""
    return [constant(each) for each in node.elts] if isinstance(node, (ast.Tuple, ast.List)) else []


@rule(
    "T96",
    title="Each layer of a model that DistributedDataParallel wraps has a part in its loss",
    source="torch 2.13, reducer: Expected to have finished reduction in the prior iteration before starting a new one;"
    " pytorch#112152",
    leads_to=("program-error",),
    bad=(_NET.format("self.stem(x)", ""), _NET.format("torch.relu(self.stem(x))", ", broadcast_buffers=False")),
    good=(
        _NET.format("self.aux(self.stem(x))", ""),
        _NET.format("self.stem(x)", ", find_unused_parameters=True"),
        _NET.format("self.stem(x)", "") + "net.module.aux.requires_grad_(False)\n",
    ),
)
def layer_without_gradient(job: LintJob) -> Iterator[LintFinding]:
    """The reducer waits for the gradients of all parameters. One whose layer forward never uses does not come, and the
    second iteration is refused."""
    for code in codes(job):
        wraps = [call for call in code.calls if _WRAPPER.fullmatch(code.name(call.func))]
        if not wraps or any(argument(call, "find_unused_parameters") is not None for call in wraps):
            continue
        made = {last_name(each.func) for call in wraps for each in walked(_model(code, call))
                if isinstance(each, ast.Call)}  # fmt: skip
        for node in code.tree.body:
            if not isinstance(node, ast.ClassDef) or node.name not in made:
                continue
            for target in _unused(code, node):
                yield LintFinding(
                    span=code.span(target),
                    summary=f"self.{target.attr} of {node.name} has parameters, and nothing uses it",
                    happens="RuntimeError in the second iteration: Expected to have finished reduction in the prior"
                    " iteration before starting a new one.",
                    fix="Take it out, or tell DistributedDataParallel find_unused_parameters=True.",
                )


def _model(code: PythonCode, wrap: ast.Call) -> ast.expr:
    """What is wrapped: as written, or as the name was assigned last before."""
    given = argument(wrap, "module", 0)
    if isinstance(given, ast.Name):
        before = [
            node.value
            for node in code.nodes
            if isinstance(node, ast.Assign)
            and node.lineno < wrap.lineno
            and any(isinstance(each, ast.Name) and each.id == given.id for each in node.targets)
            and any(isinstance(each, ast.Call) and last_name(each.func) in code.own for each in walked(node.value))
        ]
        return before[-1] if before else given
    return given if given is not None else wrap


def _unused(code: PythonCode, made: ast.ClassDef) -> Iterator[ast.Attribute]:
    """`self.x = nn.Linear(...)`, where `x` is read nowhere in the text."""
    if any(last_name(each) != "Module" for each in made.bases) or "getattr" in code.text or "children()" in code.text:
        return
    start = next((each for each in made.body if isinstance(each, FUNCTIONS) and each.name == "__init__"), None)
    for line in start.body if start is not None else ():
        target = line.targets[0] if isinstance(line, ast.Assign) and len(line.targets) == 1 else None
        if not isinstance(target, ast.Attribute) or not isinstance(line, ast.Assign):
            continue
        value = line.value
        if not isinstance(value, ast.Call) or not _LAYERS.fullmatch(code.name(value.func)):
            continue
        uses = len(re.findall(rf"\b{re.escape(target.attr)}\b", code.text))
        if uses == 1 and isinstance(target.value, ast.Name) and target.value.id == "self":
            yield target


_SAMPLED = (
    "import torch\nfrom torch.utils.data import DataLoader, DistributedSampler\n"
    "torch.distributed.init_process_group('gloo')\nsampler = DistributedSampler(data)\n"
    "loader = DataLoader(data, batch_size=8{})\nfor epoch in range(9):\n    sampler.set_epoch(epoch)\n"
)


@rule(
    "T78",
    title="A sampler is given to its loader",
    severity="warning",
    source="torch.utils.data.DataLoader takes the sampler as an argument; alone it does nothing",
    bad=(_SAMPLED.format(""), _SAMPLED.format(", shuffle=True, num_workers=4")),
    good=(
        _SAMPLED.format(", sampler=sampler"),
        _SAMPLED.format("") + "print(len(sampler))\n",
    ),
)
def sampler_of_no_loader(job: LintJob) -> Iterator[LintFinding]:
    """Told the epochs, and given to nobody: every rank goes through all of the data."""
    for code in codes(job):
        for node in code.nodes:
            value = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if not isinstance(value, ast.Call) or code.torch_name(value.func) != "DistributedSampler":
                continue
            name = ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute)) else ""
            uses = len(re.findall(rf"(?<![\w.]){re.escape(name)}\b", code.text)) if name else 0
            told = len(re.findall(rf"(?<![\w.]){re.escape(name)}\.set_epoch\b", code.text)) if name else 0
            made = len(re.findall(rf"(?<![\w.]){re.escape(name)}\s*=[^=]", code.text)) if name else 0
            loader = next((call for call in code.calls if code.torch_name(call.func) == "DataLoader"), None)
            if name and uses == told + made and loader is not None:
                yield LintFinding(
                    span=code.span(value),
                    summary=f"{name} is made and given to no DataLoader",
                    happens=f"The loader, line {code.line_of(loader)}, gives every rank all of the data.",
                    fix=f"Write DataLoader(..., sampler={name}), without shuffle.",
                )
                break


_CLOUDS = (
    "import torch\nfrom torch.utils.data import DataLoader, Dataset\nclass Clouds(Dataset):\n"
    "    def __getitem__(self, i):\n        return torch.tensor(self.rows[i]){}\n"
    "for x in DataLoader(Clouds(), batch_size=8{}):\n    net(x)\n"
)


@rule(
    "U16",
    title="A loader's workers leave the GPU alone",
    source="torch.utils.data, multiprocessing: Cannot re-initialize CUDA in forked subprocess",
    leads_to=("program-error",),
    bad=(_CLOUDS.format(".cuda()", ", num_workers=4"), _CLOUDS.format(".to('cuda')", ", num_workers=2")),
    good=(
        _CLOUDS.format(".cuda()", ""),
        _CLOUDS.format("", ", num_workers=4"),
        _CLOUDS.format(".cuda()", ", num_workers=4, multiprocessing_context='spawn'"),
    ),
)
def samples_on_a_gpu(job: LintJob) -> Iterator[LintFinding]:
    """The workers are forked from a rank that uses CUDA, which does not live through a fork."""
    for code in codes(job):
        workers = [constant(argument(call, "num_workers", 5)) for call in code.calls
                   if code.torch_name(call.func) == "DataLoader"]  # fmt: skip
        if not any(isinstance(each, int) and each > 0 for each in workers) or "spawn'" in code.text.replace('"', "'"):
            continue
        for node in code.tree.body:
            if not isinstance(node, ast.ClassDef) or not any(last_name(each) == "Dataset" for each in node.bases):
                continue
            gives = next(
                (each for each in node.body if isinstance(each, FUNCTIONS) and each.name == "__getitem__"), None
            )
            for call in walked(gives) if gives is not None else ():
                if isinstance(call, ast.Call) and _is_to_gpu(call):
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"{node.name}.__getitem__ uses the GPU, and the loader has workers",
                        happens="RuntimeError: Cannot re-initialize CUDA in forked subprocess.",
                        fix="Give samples on the CPU, and move the batch in the training loop (pin_memory=True).",
                    )
                    return


def _is_to_gpu(call: ast.Call) -> bool:
    """`x.cuda()`, `x.to("cuda:1")`, `torch.zeros(3, device="cuda")`."""
    told = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "device")]
    named = any(str(constant(each)).startswith("cuda") for each in told)
    name = last_name(call.func)
    return (
        (name == "cuda" and isinstance(call.func, ast.Attribute))
        or (name == "to" and named)
        or any(each.arg == "device" and str(constant(each.value)).startswith("cuda") for each in call.keywords)
    )
