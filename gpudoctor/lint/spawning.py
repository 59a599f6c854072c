"""Programs that start their ranks by torch.multiprocessing.spawn: which function, how many, which rank each takes."""

import ast
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.program_arguments import given_number, option_of
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes_and_starts, constant, own_nodes

NODES = ("nodes", "nnodes", "num_nodes", "n_nodes", "num_machines")
"""What parsers call the number of nodes."""
SPAWNS = ("spawn", "start_processes")
LAUNCHER_WORDS = lazy_re(
    r"[\"'](?:LOCAL_RANK|RANK|WORLD_SIZE|SLURM_PROCID|GROUP_RANK|TORCHELASTIC_\w+)[\"']|torchelastic"
)
"""The program looks whether a launcher has started it."""
MORE = lazy_re(r"\benviron\.update\b|\bload_dotenv\b|\benviron\s*=|\bputenv\b|\bsetdefault\(\s*[^\"']")
"""Variables may be set by names that are not told."""


class SpawnCall(Struct, frozen=True):
    call: ast.Call
    function: ast.FunctionDef | ast.AsyncFunctionDef | None
    """What runs as a rank, where it is defined in the text."""
    nprocs: int | None
    local: str
    """The name of its parameter that is the process's number."""


class GroupInit(Struct, frozen=True):
    call: ast.Call
    function: ast.FunctionDef | ast.AsyncFunctionDef
    local: str
    """What the number of the process is called there; empty where it is not handed over."""


def spawn_calls(code: PythonCode) -> Iterator[SpawnCall]:
    """Every call of torch's spawn."""
    for call in code.calls:
        called = code.name(call.func)
        if not called.startswith("torch.multiprocessing") or called.rpartition(".")[2] not in SPAWNS:
            continue
        target = argument(call, "fn", 0)
        function = code.functions.get(target.id) if isinstance(target, ast.Name) else None
        count = constant(_followed(code, argument(call, "nprocs", 2), code.scope_of(call)))
        parameters = [*function.args.posonlyargs, *function.args.args] if function is not None else []
        yield SpawnCall(
            call, function, count if type(count) is int and count > 0 else None, parameters[0].arg if parameters else ""
        )


def processes(job: LintJob, code: PythonCode, call: SpawnCall, launches: Sequence[LintLaunch]) -> int | None:
    """How many ranks it starts on a node."""
    if call.nprocs is not None:
        return call.nprocs
    node = argument(call.call, "nprocs", 2)
    given = given_number(code, node, launches)
    if given is not None and given > 0:
        return given
    node = _followed(code, node, code.scope_of(call.call))
    by_gpus = node is not None and "device_count" in ast.unparse(node)
    return job.facts.gpus_per_node if by_gpus else None


def inits(code: PythonCode, call: SpawnCall) -> Iterator[GroupInit]:
    """init_process_group in the function that is spawned, or in one that it calls."""
    if call.function is None:
        return
    yield from _inits_in(code, call.function, call.local)
    for node in own_nodes(call.function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        called = code.functions.get(node.func.id)
        if called is None or called is call.function:
            continue
        names = [parameter.arg for parameter in (*called.args.posonlyargs, *called.args.args)]
        local = next((name for index, name in enumerate(names) if _is(argument(node, name, index), call.local)), "")
        yield from _inits_in(code, called, local)


def _inits_in(code: PythonCode, function: ast.FunctionDef | ast.AsyncFunctionDef, local: str) -> Iterator[GroupInit]:
    for node in own_nodes(function):
        if isinstance(node, ast.Call) and code.torch_name(node.func) == "init_process_group":
            yield GroupInit(node, function, local)


def rank_of_node(code: PythonCode, call: SpawnCall) -> ast.expr | None:
    """Where the number of the process on its node is handed over as its rank; None where it is not, or is not told."""
    for init in inits(code, call):
        if not init.local or _is_bound(init.function, init.local):
            continue
        node = argument(init.call, "rank", 4)
        if node is not None:
            return node if _is(_followed(code, node, init.function), init.local) else None
        method = argument(init.call, "init_method", 1)
        if method is None or constant(method) == "env://":
            return _rank_variable(code, init)
    return None


def _rank_variable(code: PythonCode, init: GroupInit) -> ast.expr | None:
    """The value of os.environ["RANK"] = str(gpu) in that function."""
    for node in own_nodes(init.function):
        if isinstance(node, ast.Assign) and set_variable(code, node) == "RANK":
            value = node.value
            if (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Name)
                and value.func.id == "str"
                and value.args
            ):
                value = value.args[0]
            return node.value if _is(value, init.local) else None
    return None


def set_variable(code: PythonCode, node: ast.Assign) -> str:
    """NAME of `os.environ["NAME"] = ...`; empty for other statements."""
    target = node.targets[0]
    if len(node.targets) != 1 or not isinstance(target, ast.Subscript) or code.name(target.value) != "os.environ":
        return ""
    name = constant(target.slice)
    return name if isinstance(name, str) else ""


def world_size(code: PythonCode, call: SpawnCall) -> int | None:
    """The world that the program itself names, where it is a number."""
    for init in inits(code, call):
        node = _followed(code, argument(init.call, "world_size", 3), init.function)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            left, right = constant(node.left), constant(node.right)
            return left * right if type(left) is int and type(right) is int else None
        size = constant(node)
        return size if type(size) is int else None
    return None


def nodes_told(code: PythonCode, launches: Sequence[LintLaunch]) -> int | None:
    """Nodes that the starts hand the program: `-n 2` of a parser that knows --nodes."""
    for name in NODES:
        nodes = {option_of(code, name, launch) for launch in launches}
        only = nodes.pop() if len(nodes) == 1 else None
        if only is not None and re.fullmatch(r"[0-9]{1,4}", only, re.ASCII):
            return int(only)
    return None


def nodes_of_program(job: LintJob, launch: LintLaunch) -> int | None:
    """The same of a launch's program."""
    numbers = (nodes_told(code, (launch,)) for code, launches in codes_and_starts(job) if launch in launches)
    return next((number for number in numbers if number), None)


def is_for_launchers(code: PythonCode, call: ast.Call) -> bool:
    """Whether the program may not come to its spawn below a launcher: it asks, or spawns on a condition only."""
    return LAUNCHER_WORDS.search(code.text) is not None or code.is_conditional(call)


def sets_more(code: PythonCode) -> bool:
    """Whether it may set variables of its environment whose names are not told."""
    return MORE.search(code.text) is not None


def spawned_per_process(job: LintJob, launch: LintLaunch) -> int | None:
    """Ranks that the program of a launch spawns in each process that is started; None: it does not, or nobody knows."""
    for code, launches in codes_and_starts(job):
        if launch in launches:
            for call in spawn_calls(code):
                if not is_for_launchers(code, call.call):
                    return processes(job, code, call, (launch,))
    return None


def _is(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Name) and bool(name) and node.id == name


def _is_bound(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
               for node in own_nodes(function))  # fmt: skip


def _followed(code: PythonCode, node: ast.expr | None, scope: ast.AST) -> ast.expr | None:
    """What a name stands for, where the function or the module binds it once."""
    for _ in range(4):
        if not isinstance(node, ast.Name):
            return node
        only = _only_value(scope, node.id)
        if only is None and isinstance(scope, FUNCTIONS) and not _has_parameter(scope, node.id):
            only = _only_value(code.tree, node.id)
        if only is None:
            return node
        node = only
    return node


def _has_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    every = function.args
    return any(parameter.arg == name for parameter in (*every.posonlyargs, *every.args, *every.kwonlyargs))


def _only_value(scope: ast.AST, name: str) -> ast.expr | None:
    stores = 0
    values: list[ast.expr] = []
    for node in own_nodes(scope):
        stores += isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and _is(node.targets[0], name):
            values.append(node.value)
    return values[0] if stores == 1 and values else None
