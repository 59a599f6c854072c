"""Calls of collectives in a function of the program: by itself, and through functions of the file's own."""

import ast
from collections.abc import Iterator, Mapping

from msgspec import structs

from gpudoctor.knowledge.place_markers import COLLECTIVES, POINT_TO_POINT
from gpudoctor.read.job import by_rank
from gpudoctor.read.job.source_text import cut, text_of
from gpudoctor.read.job.source_walk import called, functions_of, guarded, own_name, walk
from gpudoctor.snapshot.evidence import Enclosing

MOST_GIVEN = 8
DEEPEST = 3
"""Calls from function to function on the way to a collective."""

CALLS = frozenset(
    (*COLLECTIVES.split(), *POINT_TO_POINT.split(), "init_process_group", "destroy_process_group", "new_group")
) | {
    "backward",
    "wait_for_everyone",  # accelerate
    "gather_for_metrics",
    "reduce_dict",
    "save_state",
    "save_checkpoint",  # Lightning, DeepSpeed: all ranks take part
    "all_gather_into_tensor",
    "P2POp",
}
"""Names of calls in which all ranks of a group take part, or two of them."""
AMBIGUOUS = frozenset(("reduce", "gather", "scatter", "broadcast", "send", "recv"))
"""Names that other things have as well (functools.reduce, socket.send): they count as an attribute of a module that is
called dist or the like."""
_MODULES = ("dist", "distributed", "c10d", "torch.distributed", "fabric", "accelerator", "comm", "funcol")


def calls_of(scope: ast.AST, names: by_rank.ByRank) -> Iterator[Enclosing]:
    """The calls of collectives in a function, in the order of its text."""
    for found in walk(scope, names):
        for call in called(found.node):
            name = collective_of(call)
            if name:
                own = guarded(name, call, found)
                yield structs.replace(own, gives=tuple(_given(call))[:MOST_GIVEN], root=_names_in(_root(call)))


def _given(call: ast.AST) -> Iterator[str]:
    """The variables that a call is given, by place or by name; none of an exchange in parts that it tells."""
    if isinstance(call, ast.Call) and not (
        collective_of(call) == "all_to_all_single" and (len(call.args) > 2 or any(map(_tells_parts, call.keywords)))
    ):
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        yield from (argument.id for argument in given if isinstance(argument, ast.Name))


ROOT_AT = {"broadcast": 1, "reduce": 1, "gather": 2, "scatter": 2}
ROOT_AT |= {"broadcast_object_list": 1, "gather_object": 2, "scatter_object_list": 2}
"""At which place a collective of torch.distributed takes its root."""
_ROOTS = ("src", "dst", "group_src", "group_dst")


def _root(call: ast.AST) -> ast.expr | None:
    """What a call says of its root; None of one in a group that it names: each such group may have its own."""
    if not isinstance(call, ast.Call) or (place := ROOT_AT.get(collective_of(call))) is None:
        return None
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    if len(call.args) > place + 1 or named.keys() & {None, "group"}:
        return None
    return next((named[name] for name in _ROOTS if name in named), call.args[place] if len(call.args) > place else None)


def _names_in(expression: ast.expr | None) -> tuple[str, ...]:
    """The variables of an expression, without the functions that it calls."""
    nodes = [*ast.walk(expression)] if expression is not None else []
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    names = (node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in functions)
    return tuple(dict.fromkeys(names))[:MOST_GIVEN]


def _tells_parts(keyword: ast.keyword) -> bool:
    return keyword.arg is None or keyword.arg.endswith("split_sizes")


def _passed_on(call: ast.AST, function: ast.AST, made: Enclosing) -> Enclosing:
    """What a function of the caller's own makes, with the variables of the caller that it gives to this collective as
    they are, and from which it takes the root."""
    if not isinstance(call, ast.Call) or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return made
    inner = [own for each in walk(function) for own in called(each.node) if collective_of(own) == made.kind]
    stored = {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    given = {name for own in inner for name in _given(own)} - stored
    roots = {name for own in inner for name in _names_in(_root(own))} - stored
    passed = [*_by_parameter(call, function)]
    return structs.replace(
        made,
        gives=tuple(each.id for name, each in passed if name in given and isinstance(each, ast.Name))[:MOST_GIVEN],
        root=tuple(own for name, each in passed if name in roots for own in _names_in(each))[:MOST_GIVEN],
    )


def calls_of_own(scope: ast.AST, functions: Mapping[str, ast.AST], names: by_rank.ByRank) -> Iterator[Enclosing]:
    """The calls in a function of those that make collectives, or lead to some."""
    known: dict[str, str] = {}

    def first_of(name: str, depth: int) -> str:
        """The first collective on the way through a function; empty where there is none."""
        if name not in known and depth <= DEEPEST:
            known[name] = ""  # it may call itself
            for found in walk(functions[name]):
                for call in called(found.node):
                    own = collective_of(call) or (
                        first_of(own, depth + 1) if (own := own_name(call, functions)) else ""
                    )
                    if own and own != "backward":
                        known[name] = own
                        return own
        return known.get(name, "")

    for found in walk(scope, names):
        for call in called(found.node):
            name = own_name(call, functions)
            if name and functions[name] is not scope and (collective := first_of(name, 1)):
                yield _passed_on(call, functions[name], guarded(collective, call, found))


def unwritten(tree: ast.Module) -> Iterator[str]:
    """Methods that make collectives and that Python calls where none is written: `__len__`, `__iter__`, properties."""
    for owner in ast.walk(tree):
        for method in owner.body if isinstance(owner, ast.ClassDef) else ():
            if not isinstance(method, ast.FunctionDef) or not _is_unwritten(method):
                continue
            if any(collective_of(call) for found in walk(method) for call in called(found.node)):
                yield method.name


def _is_unwritten(method: ast.FunctionDef) -> bool:
    if any(text_of(decorator).endswith("property") for decorator in method.decorator_list):
        return True
    return method.name.startswith("__") and method.name.endswith("__") and method.name not in ("__init__", "__call__")


def forwards_of(scope: ast.AST, functions: Mapping[str, ast.AST], names: by_rank.ByRank) -> Iterator[Enclosing]:
    """The calls in a function, under a condition on the rank, of what it has the parameters of: of a model. And what
    gathers its weights as a call of it does."""
    asked = (node.func for node in ast.walk(scope) if isinstance(node, ast.Call))
    models = {text_of(each.value) for each in asked if isinstance(each, ast.Attribute) and each.attr in OF_MODELS}
    for found in walk(scope, names) if models else ():
        if not any(asks for _, asks in found.guards):
            continue
        for call in called(found.node):
            if isinstance(call, ast.Call) and (
                text_of(call.func) in models
                or _gathers(call) in models
                or any(map(models.__contains__, _called_inside(call, functions)))
            ):
                yield guarded("forward", call, found)


OF_MODELS = ("parameters", "named_parameters", "train", "eval", "state_dict")


def _gathers(call: ast.Call) -> str:
    """Whose weights a call gathers by itself, as a forward does: "model" of `model.unshard()`."""
    function = call.func
    return text_of(function.value) if isinstance(function, ast.Attribute) and function.attr == "unshard" else ""


def _called_inside(call: ast.Call, functions: Mapping[str, ast.AST]) -> Iterator[str]:
    """What a function of the file is given and calls: a model, by its name here."""
    function = functions.get(call.func.attr if isinstance(call.func, ast.Attribute) else text_of(call.func))
    if not isinstance(function, ast.FunctionDef):
        return
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
    own = {node.func.id for node in calls if isinstance(node.func, ast.Name)} | {*map(_gathers, calls)}
    for name, argument in _by_parameter(call, function):
        if name in own:
            yield text_of(argument)


def _by_parameter(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """What a call gives to each parameter."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    yield from zip(names[isinstance(call.func, ast.Attribute) and names[:1] == ["self"] :], call.args, strict=False)
    yield from ((each.arg, each.value) for each in call.keywords if each.arg is not None)


def gradients_of(scope: ast.AST, functions: Mapping[str, ast.AST]) -> Iterator[Enclosing]:
    """The calls in a function of those that call backward, at one line."""
    lines: dict[str, set[int]] = {}
    for statement in walk(scope):
        for call in called(statement.node):
            name = own_name(call, functions)
            if not name or functions[name] is scope:
                continue
            if name not in lines:
                inner = (own for each in walk(functions[name]) for own in called(each.node))
                lines[name] = {
                    own.lineno for own in inner if isinstance(own, ast.Call) and collective_of(own) == "backward"
                }
            if len(lines[name]) == 1:
                yield Enclosing(name, int(getattr(call, "lineno", 0)), str(*lines[name]))


def collective_of(node: ast.AST) -> str:
    """The name of the collective that a call makes; empty when it makes none."""
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    if isinstance(function, ast.Attribute) and function.attr in CALLS:
        if function.attr in AMBIGUOUS:
            owner = text_of(function.value)
            return function.attr if owner.rpartition(".")[2] in _MODULES or owner in _MODULES else ""
        return function.attr
    if isinstance(function, ast.Name) and function.id in CALLS - AMBIGUOUS:
        return function.id
    return ""


def hooks(tree: ast.Module) -> Iterator[Enclosing]:
    """What leaves early, under a condition, a function by which the file has DDP exchange gradients."""
    functions = functions_of(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and text_of(node.func).endswith(".register_comm_hook"):
            given = (*node.args[1:2], *(one.value for one in node.keywords if one.arg == "hook"))
            for own in filter(None, (functions.get(text_of(one).rpartition(".")[2]) for one in given)):
                for found in walk(own):
                    if isinstance(found.node, ast.Return) and found.guards:
                        yield Enclosing("return", found.node.lineno, cut(found.guards[-1][0]))
