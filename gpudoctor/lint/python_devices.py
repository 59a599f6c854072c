"""What a Python text says of GPUs: the CUDA_VISIBLE_DEVICES that it sets, their numbers, the first call into CUDA."""

import ast
import re
from collections.abc import Iterator

from msgspec import Struct

from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.repair import HIDING
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import processes
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes_and_starts, constant, numbers
from gpudoctor.lint.spawning import set_variable

INITIALISES = frozenset(
    {
        *("init", "is_available", "current_device", "set_device", "get_device_name", "get_device_properties"),
        *("get_device_capability", "synchronize", "mem_get_info", "current_stream", "is_bf16_supported", "Stream"),
    }
)
"""Of torch.cuda: after each, the driver has read CUDA_VISIBLE_DEVICES. is_available asks cudaGetDeviceCount, which
calls cuInit; device_count asks NVML and does not (torch/cuda/__init__.py of 2.13), manual_seed and empty_cache wait."""
CHILDREN = lazy_re(r"\b(?:subprocess|Popen|multiprocessing|mp\.|Process|spawn|fork|joblib|ray\.|submitit)\b|\bos\.exec")
"""Processes that it starts get the variable anew."""
DEVICE = lazy_re(r"cuda:([0-9]{1,3})")
MOST_FOLLOWED = 100
"""Functions that are followed from one start: far below what Python's own stack bears."""


class VisibleSet(Struct, frozen=True):
    """os.environ["CUDA_VISIBLE_DEVICES"] = value."""

    statement: ast.stmt
    value: ast.expr
    by_default: bool = False
    """setdefault: what the environment says holds."""


class NamedDevices(Struct, frozen=True):
    """GPUs that a program names by their numbers."""

    numbers: tuple[int, ...]
    node: ast.expr
    """The value, which another would replace."""
    shown: str
    """As a message names it: "devices=[0, 3]", ".cuda(3)"."""
    by: str
    """Who takes them: "Lightning", "DataParallel", "torch"."""
    spelled: str = "{}"
    """How a value is written there."""


class SeenGpus(Struct, frozen=True):
    """How many GPUs a program sees, and whence."""

    count: int
    phrase: str
    numbers: tuple[int, ...] = ()
    """Of CUDA_VISIBLE_DEVICES, where it is a list of numbers."""


def sets_visible(code: PythonCode) -> Iterator[VisibleSet]:
    """Every statement that sets the variable, in the order of the text."""
    visible_sets = [
        visible
        for node in code.nodes
        if isinstance(node, ast.stmt) and (visible := visible_set(code, node)) is not None
    ]
    yield from sorted(visible_sets, key=lambda each: each.statement.lineno)


def visible_set(code: PythonCode, node: ast.AST) -> VisibleSet | None:
    """The statement as one that sets the variable."""
    if isinstance(node, ast.Assign) and set_variable(code, node) == VARIABLE:
        return VisibleSet(node, node.value)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = code.name(node.value.func)
        told, value = argument(node.value, "", 0), argument(node.value, "", 1)
        if name in ("os.environ.setdefault", "os.putenv") and constant(told) == VARIABLE and value is not None:
            return VisibleSet(node, value, name.endswith("setdefault"))
        if name == "os.environ.update" and (updated := _updated(node.value)) is not None:
            return VisibleSet(node, updated)
    return None


def _updated(call: ast.Call) -> ast.expr | None:
    """The value in `os.environ.update(CUDA_VISIBLE_DEVICES="0")` or `update({"CUDA_VISIBLE_DEVICES": "0"})`."""
    if (named := argument(call, VARIABLE)) is not None:
        return named
    given = call.args[0] if len(call.args) == 1 else None
    if not isinstance(given, ast.Dict):
        return None
    return next((value for key, value in zip(given.keys, given.values, strict=True) if constant(key) == VARIABLE), None)


def seen(job: LintJob, code: PythonCode, launches: tuple[LintLaunch, ...]) -> SeenGpus | None:
    """The GPUs that the program sees; None where nobody knows."""
    inside = list(sets_visible(code))
    if inside:
        values = {constant(visible.value) for visible in inside if isinstance(visible.value, ast.Constant)}
        value = next(iter(values), None)
        alone = len(values) == 1 and all(isinstance(visible.value, ast.Constant) for visible in inside)
        if not alone or not isinstance(value, str) or any(visible.by_default for visible in inside):
            return None
        return of_value(value)
    settings = [launch.invocation.settings.get(VARIABLE) for launch in launches]
    if any(setting is not None for setting in settings):
        shown = {gpus.value for launch in launches if (gpus := processes.shown_gpus(launch)) is not None}
        return of_value(next(iter(shown))) if len(shown) == 1 and None not in settings else None
    if VARIABLE in job.facts.variables:
        return of_value(job.facts.variables[VARIABLE])
    count = job.facts.gpus_per_node
    if count is None or VARIABLE in code.text:
        return None
    return SeenGpus(count, f"a node has {count}, 0 to {count - 1}" if count > 1 else "a node has one, number 0")


def shown_by_itself(job: LintJob, launch: LintLaunch) -> SeenGpus | None:
    """The GPUs that the program of a launch shows itself, whatever its launcher showed it."""
    code = next((code for code, starts in codes_and_starts(job) if launch in starts), None)
    inside = [each.statement for each in sets_visible(code)] if code is not None else []
    if code is None or not inside or any(code.is_conditional(each) for each in inside):
        return None
    scopes = {code.scope_of(each) for each in inside} - {code.tree}
    if not all(map(code.is_called, scopes)) or any(late_sets(code)):
        return None
    return seen(job, code, (launch,))


def of_value(value: str) -> SeenGpus | None:
    if value.strip().lower() in HIDING:
        return None
    entries = processes.counted_entries(value)
    if not entries:
        return None
    listed = tuple(entry.number for entry in entries if entry.form == "ordinal" and not entry.ignored)
    count = len(entries)
    numbered = "number 0" if count == 1 else f"numbered 0 {'and' if count == 2 else 'to'} {count - 1}"
    shown = f"{VARIABLE}={value} shows it {count}, {numbered}"
    return SeenGpus(count, shown, listed if len(listed) == count else ())


def named_devices(code: PythonCode) -> Iterator[NamedDevices]:
    """GPUs that it names by constant numbers, in calls of torch."""
    if not code.brings("torch") and "torch" not in code.text:
        return
    for call in code.calls:
        yield from _of_call(code, call)


def _of_call(code: PythonCode, call: ast.Call) -> Iterator[NamedDevices]:
    name = code.name(call.func)
    last = name.rpartition(".")[2]
    if name.startswith("torch.nn.") and last in ("DataParallel", "DistributedDataParallel"):
        node = argument(call, "device_ids", 1)
        listed = numbers(node)
        if node is not None and listed is not None:
            yield NamedDevices(tuple(listed), node, f"device_ids={code.words(node)}", last)
        return
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    first = argument(call, "device", 0)
    if method in ("cuda", "to") and not name.startswith("torch."):
        number = constant(first)
        if first is not None and type(number) is int:
            yield NamedDevices((number,), first, f".{method}({number})", "torch")
        elif first is not None:
            yield from _of_text(code, first, f".{method}")
    elif name == "torch.device":
        index = argument(call, "index", 1)
        number = constant(index)
        if first is not None and index is not None and constant(first) == "cuda" and type(number) is int:
            yield NamedDevices((number,), index, f"torch.device('cuda', {number})", "torch")
        elif first is not None:
            yield from _of_text(code, first, "torch.device")
    elif name == "torch.cuda.set_device":
        number = constant(first)
        if first is not None and type(number) is int:
            yield NamedDevices((number,), first, f"set_device({number})", "torch")
        elif first is not None:
            yield from _of_text(code, first, "set_device")
    elif name.startswith("torch."):
        device = argument(call, "device")
        if device is not None:
            yield from _of_text(code, device, "device=")


def _of_text(code: PythonCode, node: ast.expr, who: str) -> Iterator[NamedDevices]:
    if isinstance(node, ast.IfExp):  # "cuda:3" if torch.cuda.is_available() else "cpu"
        yield from (named for each in (node.body, node.orelse) for named in _of_text(code, each, who))
        return
    value = constant(node)
    match = DEVICE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        words = code.words(node)
        shown = f"{who}{words}" if who.endswith("=") else f"{who}({words})"
        yield NamedDevices((int(match[1]),), node, shown, "torch", '"cuda:{}"')


def late_sets(code: PythonCode) -> Iterator[tuple[VisibleSet, ast.expr]]:
    """Statements that set the variable after a call into CUDA that certainly came before; with that call."""
    if CHILDREN.search(code.text):
        return
    called = {
        node.func.id
        for node in code.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in code.functions
    }
    told: set[int] = set()
    bodies = [code.tree.body, *(function.body for name, function in code.functions.items() if name not in called)]
    for body in bodies:
        first: ast.expr | None = None
        earlier: set[object] = set()
        for step in _steps(code, body, set()):
            shown = visible_set(code, step) if isinstance(step, ast.stmt) else None
            if shown is None:
                first = first or next(_into_cuda(code, step), None)
                continue
            first = first or next(_into_cuda(code, shown.value), None)
            value = constant(shown.value)
            if first is None:
                earlier.add(value)
            elif (value is None or value not in earlier) and shown.statement.lineno not in told:
                told.add(shown.statement.lineno)
                yield shown, first


def _steps(code: PythonCode, body: list[ast.stmt], done: set[str]) -> Iterator[ast.stmt | ast.expr]:
    """What certainly runs, in its order: statements, conditions, what functions of the text do that are called.
    `done`: those that were followed; what they did first, they have done."""
    for statement in body:
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(statement, ast.If):
            yield statement.test
            if "__name__" in ast.unparse(statement.test):
                yield from _steps(code, statement.body, done)
            continue
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            yield from (item.context_expr for item in statement.items)
            yield from _steps(code, statement.body, done)
            continue
        if isinstance(statement, (ast.For, ast.While, ast.Try, ast.AsyncFor, ast.Match)):
            continue
        if isinstance(statement, (ast.Return, ast.Raise)):
            return
        value = getattr(statement, "value", None)
        inner = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if inner not in done and len(done) < MOST_FOLLOWED and isinstance(code.functions.get(inner), ast.FunctionDef):
            done.add(inner)
            yield from _steps(code, code.functions[inner].body, done)
        yield statement


def _into_cuda(code: PythonCode, node: ast.AST) -> Iterator[ast.expr]:
    """Calls in it that make CUDA read the variable, where they certainly run."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
        return
    if isinstance(node, ast.IfExp):
        yield from _into_cuda(code, node.test)
        return
    if isinstance(node, ast.BoolOp):
        yield from _into_cuda(code, node.values[0])
        return
    for child in ast.iter_child_nodes(node):
        yield from _into_cuda(code, child)
    if isinstance(node, ast.Call) and _is_into_cuda(code, node):
        yield node


def _is_into_cuda(code: PythonCode, call: ast.Call) -> bool:
    name = code.name(call.func)
    if name.startswith("torch.cuda."):
        last = name.rpartition(".")[2]
        by_nvml = last == "is_available" and "PYTORCH_NVML_BASED_CUDA_CHECK" in code.text
        return last in INITIALISES and name.count(".") == 2 and not by_nvml
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if not code.brings("torch"):
        return False
    if method == "cuda":
        return True
    device = argument(call, "device", 0) if method == "to" else argument(call, "device")
    value = constant(device)
    on_cuda = isinstance(value, str) and re.fullmatch(r"cuda(?::\d+)?", value) is not None
    return on_cuda and (method == "to" or (name.startswith("torch.") and name != "torch.device"))
