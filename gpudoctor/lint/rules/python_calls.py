"""Rules of what programs hand to torch's own functions, and of names in them: T10, T11, T32."""

import ast
import builtins
from collections.abc import Iterator

from gpudoctor.knowledge.hugging_face_arguments import lost_argument
from gpudoctor.knowledge.pytorch.signatures import MEANT, OF_APEX, RefusedArgument, function_of, refused, takes
from gpudoctor.lint.known_up_to import KnownUpTo, held_against, is_misspelt
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, codes, constant, own_nodes
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule

_GUARD = "if __name__ == '__main__':\n    "
_HEAD = "import torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
_WRAPS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel")
PLAIN = ("init_process_group", "new_group", "spawn", "start_processes", "convert_sync_batchnorm")
"""Functions; of a class it is __init__ that refuses."""
_READ = KnownUpTo("torch", "2.14")
_MOVES = ("cuda", "to", "cpu", "half", "xpu")


@rule(
    "T10",
    title="torch's functions are called with arguments that they have",
    needs="facts",
    source="the signatures of torch 1.0 to 2.14, read from their wheels (knowledge/pytorch/signatures.py)",
    bad=(
        _HEAD + "model = torch.nn.DataParallel(model, devices=[0, 1])\n",
        _HEAD + "dist.init_process_group('nccl', rank=rank, worldworld_size=8)\n",
        Example(_HEAD + "dist.init_process_group('nccl', device_id=device)\n", "torch=2.1"),
        _HEAD + "loader = torch.utils.data.DataLoader(data, batchsize=8)\n",
        Example(_HEAD + "with torch.cuda.amp.autocast(dtype=torch.bfloat16):\n    step()\n", "torch=1.9"),
    ),
    good=(
        _HEAD + "model = torch.nn.DataParallel(model, device_ids=[0, 1], dim=0)\n",
        Example(_HEAD + "dist.init_process_group('nccl', device_id=device)\n", "torch=2.4"),
        Example(_HEAD + "with torch.autocast('cuda', dtype=torch.float16):\n    step()\n", "torch=1.13"),
        "import torch\nfrom torch_geometric.nn import DataParallel\nmodel = DataParallel(model, follow_batch=['x'])\n",
    ),
)
def unknown_argument_of_torch(job: LintJob) -> Iterator[LintFinding]:
    """An argument that a function does not have is a TypeError in the line that calls it."""
    version = job.facts.version("torch")
    given_version = job.facts.versions.get("torch", "")
    for code in codes(job):
        for call in code.calls:
            function = function_of(code.name(call.func))
            for keyword in call.keywords if function else ():
                unknown = refused(function, keyword.arg, version) if keyword.arg else None
                if keyword.arg and unknown is not None:
                    yield _unknown(job, code, call, keyword, function, unknown, given_version, version)


def _unknown(
    job: LintJob,
    code: PythonCode,
    call: ast.Call,
    keyword: ast.keyword,
    function: str,
    unknown: RefusedArgument,
    told: str,
    version: tuple[int, ...] | None,
) -> LintFinding:
    word, span, name = keyword.arg or "", code.span(keyword), function.rpartition(".")[2]
    near = "" if any(other.arg == unknown.near for other in call.keywords) else unknown.near
    value = code.words(keyword.value)
    if near:
        fix = f"Write {near}={value[:60]}."
    elif name == "DistributedDataParallel" and word in OF_APEX:
        fix = f"Take it out: {word} is of Apex's DistributedDataParallel, which has the same name."
    else:
        fix = f"Take it out; {name} knows {', '.join(takes(function, version))}."
    finding = LintFinding(
        span=span,
        summary=f"{name} has no argument {word}"
        + (f" in torch {told}" if unknown.when and told else "")
        + unknown.when,
        happens=f"TypeError: {name}{'' if name in PLAIN else '.__init__'}() got an unexpected keyword argument"
        f" '{word}'.",
        fix=fix,
        edits=(Edit(span, f"{near}={value}"),) if near else (),
    )
    meant = (function, word) in MEANT or (name == "DistributedDataParallel" and word in OF_APEX)
    sure = bool(unknown.when) or meant or is_misspelt(word, unknown.near)
    return held_against(job, (_READ,), finding, sure=sure)


@rule(
    "T32",
    title="accelerate and transformers are given arguments that they still take",
    needs="facts",
    source="the wheels of accelerate 0.1 to 1.6 and transformers 3.5 to 5.23 (knowledge/hugging_face_arguments.py)",
    bad=(
        "from accelerate import Accelerator\naccelerator = Accelerator(fp16=True)\n",
        Example(
            "import transformers\nargs = transformers.TrainingArguments('out', evaluation_strategy='no')\n",
            "transformers=4.55",
        ),
    ),
    good=(
        "from accelerate import Accelerator\naccelerator = Accelerator(mixed_precision='fp16')\n",
        Example(
            "import transformers\nargs = transformers.TrainingArguments('out', evaluation_strategy='no')\n",
            "transformers=4.40",
        ),
        "from mine import Accelerator\naccelerator = Accelerator(fp16=True)\n",
    ),
)
def argument_that_is_lost(job: LintJob) -> Iterator[LintFinding]:
    """Arguments that tutorials of accelerate 0.x and transformers 4 give were renamed, and then removed."""
    for code in codes(job):
        for call in code.calls:
            package, _, owner = code.name(call.func).rpartition(".")
            for keyword in call.keywords:
                lost = lost_argument(owner, keyword.arg or "")
                if lost is None or package.partition(".")[0] != lost.package:
                    continue
                version = job.facts.version(lost.package)
                if version is not None and version < lost.gone:
                    continue
                span, value = code.span(keyword), code.words(keyword.value)
                whole = lost.today.endswith("=")
                off = not whole and constant(keyword.value) in (False, None) and lost.name in ("fp16", "adafactor")
                yield LintFinding(
                    span=span,
                    severity=None if version is not None else "warning",
                    summary=f"{lost.name}={value[:60]}: {lost.since}",
                    happens=f"TypeError: {owner}.__init__() got an unexpected keyword argument '{lost.name}'.",
                    fix="Take it out." if off else f"Write {lost.today}{value[:60] if whole else ''}.",
                    edits=(Edit(span, f"{lost.today}{value}"),) if whole else (),
                )


@rule(
    "T11",
    title="A function moves its own variables, or says that they are global",
    source="Python's reference, 4.2.2: a name that a function binds is the function's own in all of it",
    bad=(
        _HEAD
        + "model = Net()\ndef train(gpu):\n    model = model.cuda(gpu)\n    model(x)\n"
        + _GUARD
        + "mp.spawn(train, nprocs=2)\n",
        _HEAD + "net = Net()\ndef main():\n    torch.manual_seed(0)\n    net = torch.nn.DataParallel(net)\nmain()\n",
    ),
    good=(
        _HEAD
        + "model = Net()\ndef train(gpu):\n    model.cuda(gpu)\n    model(x)\n"
        + _GUARD
        + "mp.spawn(train, nprocs=2)\n",
        _HEAD
        + "model = Net()\ndef train(gpu):\n    global model\n    model = model.cuda(gpu)\n"
        + _GUARD
        + "mp.spawn(train, nprocs=2)\n",
        _HEAD
        + "model = Net()\ndef train(gpu, model):\n    model = model.cuda(gpu)\n"
        + _GUARD
        + "mp.spawn(train, (model,), 2)\n",
    ),
)
def global_moved_in_a_function(job: LintJob) -> Iterator[LintFinding]:
    """`model = model.cuda()` inside a function makes `model` the function's own name: it has no value yet where it is
    read, whatever the module calls so."""
    for code in codes(job):
        outer = _bound_in(code.tree)
        for function in code.nodes:
            if not isinstance(function, FUNCTIONS):
                continue
            for node, name in _reads_itself(code, function):
                if name not in outer:
                    continue
                yield LintFinding(
                    span=code.span(node),
                    summary=f"{function.name}() assigns {name}, so {name} is its own here and has no value yet",
                    happens=f"UnboundLocalError: cannot access local variable '{name}' where it is not associated with"
                    " a value.",
                    fix=f"Make {name} inside {function.name}(), hand it over as an argument, or give the moved one"
                    f" another name: gpu_{name} = {code.words(node.value)[:60]}.",
                )


def _reads_itself(
    code: PythonCode, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[tuple[ast.Assign, str]]:
    """`x = x.cuda()`, `x = DataParallel(x)` as the first of all that binds x in the function."""
    declared = {
        name for node in own_nodes(function) if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names
    }
    every = function.args
    declared |= {parameter.arg for parameter in (*every.posonlyargs, *every.args, *every.kwonlyargs)}
    declared |= {node.arg for node in (every.vararg, every.kwarg) if node is not None}
    bound: set[str] = set(declared)
    deferred = {name for node in own_nodes(function) for name in _binds(node) if not isinstance(node, ast.Name)}
    assigned: set[str] = set()
    for node in own_nodes(function):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
                assigned.add(node.id)
            continue
        name = node.targets[0].id
        if name in bound | deferred | assigned or hasattr(builtins, name):
            continue
        if _is_move(code, node.value, name) and not isinstance(code.scope_of(function), FUNCTIONS):
            yield node, name
        assigned.add(name)


def _is_move(code: PythonCode, value: ast.expr, name: str) -> bool:
    """x.cuda(...), x.to(...), DataParallel(x, ...)."""
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Attribute) and value.func.attr in _MOVES:
        return isinstance(value.func.value, ast.Name) and value.func.value.id == name
    wraps = code.torch_name(value.func) in _WRAPS
    return wraps and bool(value.args) and isinstance(value.args[0], ast.Name) and value.args[0].id == name


def _binds(node: ast.AST) -> Iterator[str]:
    """Names that a statement binds otherwise than by an assignment."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from (name.asname or name.name.partition(".")[0] for name in node.names)
    elif isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name


def _bound_in(tree: ast.Module) -> frozenset[str]:
    """What the module itself calls by a name."""
    return frozenset(
        node.id for node in own_nodes(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
