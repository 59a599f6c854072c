"""What may have an object do one thing here and another there: of the line's call, how what it calls was made, what it
is told, and which of its other calls a condition or a `continue` leads past; who has handed on the line's function.

schedule = Schedule(stage, count)           # "made", with what
model.set_requires_gradient_sync(enough)    # "told": a truth value
if rows: metric.update(rows)                # "asked", under a condition
if main: engine.add_event_handler(save)     # "handed", under a condition
for batch in loader: ... break              # "left": the line is the head of a loop, which this leaves
def val_dataloader(self): return ...        # "data": what a framework's loop goes over
"""

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.lazy import lazy_re
from gpudoctor.read.job import by_rank
from gpudoctor.read.job.source_text import text_of
from gpudoctor.read.job.source_walk import called, children
from gpudoctor.snapshot.evidence import Enclosing

MOST_TOLD = 8
MOST_LEAVES = 64
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Loop = ast.For | ast.AsyncFor | ast.While


def objects(
    tree: ast.Module, statement: ast.stmt, scope: ast.AST, owner: ast.ClassDef | None, names: by_rank.ByRank
) -> list[Enclosing]:
    """All of it of one statement, each once."""
    own = itertools.islice(_of_receivers(tree, statement, scope, owner, names), MOST_LEAVES)
    found = [*own, *_left(statement, names), *_data(tree)]
    if isinstance(scope, _Function):
        found += _handed(tree).get(scope.name, ())
    return list(dict.fromkeys(found))[:MOST_TOLD]


def _of_receivers(
    tree: ast.Module, statement: ast.stmt, scope: ast.AST, owner: ast.ClassDef | None, names: by_rank.ByRank
) -> Iterator[Enclosing]:
    modules = _imported(tree)
    for name in _receivers(statement):
        if name.partition(".")[0] in modules:
            continue
        own: Sequence[ast.AST] = [scope]
        if name.startswith("self."):
            own = [node for node in owner.body if isinstance(node, _Function)] if owner is not None else []
            if any(getattr(node, "name", "") == name[5:] for node in own):
                continue  # a method, and no object
        for each in own:
            yield from _in_scope(each, name, statement, names)


def _receivers(statement: ast.stmt) -> dict[str, None]:
    """The objects that a statement calls: names, and attributes of `self`."""
    found: dict[str, None] = {}
    for node in called(statement):
        if isinstance(node, ast.Call):
            method = node.func
            for each in (method.value if isinstance(method, ast.Attribute) else method, method):
                found[_object(each)] = None
    if isinstance(statement, ast.For | ast.AsyncFor):
        found[_object(statement.iter)] = None
    return {name: None for name in found if name}


def _object(node: ast.AST | None) -> str:
    """The name of what may be an object: "model", "self.metric"; "" of all else."""
    if isinstance(node, ast.Name):
        return node.id if node.id != "self" else ""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return f"self.{node.attr}" if own and isinstance(node, ast.Attribute) else ""


def _in_scope(scope: ast.AST, name: str, line: ast.stmt, names: by_rank.ByRank) -> Iterator[Enclosing]:
    above = _parents(scope)
    truths = {
        target.id
        for node in above
        if isinstance(node, ast.Assign) and _is_truth(node.value, frozenset())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in above:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.With | ast.AsyncWith):
            given = [item for item in node.items if item.optional_vars is not None]
            targets, value = (
                [item.optional_vars for item in given],
                given[0].context_expr if given else None,
            )
        if isinstance(value, ast.Call) and any(_object(each) == name for each in targets):
            yield Enclosing("made", value.lineno, text_of(value))
        calls = [each for each in called(node) if isinstance(each, ast.Call) and _calls(each, name)]
        if not calls:
            continue
        if isinstance(node, ast.Expr) and node is not line:
            given_to = [*calls[0].args, *(word.value for word in calls[0].keywords)]
            if len(given_to) == 1 and _is_truth(given_to[0], truths):
                yield Enclosing("told", node.lineno, text_of(given_to[0]))
        if isinstance(node, ast.stmt):
            yield from _led_past(node, line, scope, names)


def _calls(call: ast.Call, name: str) -> bool:
    method = call.func
    return _object(method) == name or (isinstance(method, ast.Attribute) and _object(method.value) == name)


def _is_truth(node: ast.AST, truths: frozenset[str] | set[str]) -> bool:
    return (
        isinstance(node, ast.Compare | ast.BoolOp)
        or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
        or (isinstance(node, ast.Name) and node.id in truths)
    )


@functools.lru_cache(maxsize=256)
def _parents(scope: ast.AST) -> dict[ast.AST, ast.AST]:
    """The statements of a scope in the order of its text, each with the one around it."""
    found: dict[ast.AST, ast.AST] = {}
    stack = [(child, scope) for _, child in reversed(list(children(scope)))]
    while stack:
        node, parent = stack.pop()
        found[node] = parent
        if not isinstance(node, _Function | ast.ClassDef):
            stack += [(child, node) for _, child in reversed(list(children(node)))]
    return found


def _led_past(node: ast.stmt, line: ast.stmt, scope: ast.AST, names: by_rank.ByRank) -> Iterator[Enclosing]:
    """The innermost condition around a call that is not around the line too, or else the `continue` and `return` above
    it."""
    above = _parents(scope)
    around_line = set(_around(line, above)) if line in above else set()
    around = _around(node, above)
    in_one_loop = any(isinstance(each, _Loop) for each in around_line.intersection(around))
    if line in above and node.lineno > line.lineno and not in_one_loop:
        return  # it comes later
    guard = next((each for each in around if isinstance(each, ast.If) and each not in around_line), None)
    if node is not line and guard is not None:
        yield _as_guard(guard, "asked", names)
        return
    loop = next((each for each in around if isinstance(each, _Loop)), None)
    for leaves, guard in _leaves(scope):
        own = next((up for up in _around(leaves, above) if isinstance(up, _Loop)), None)
        if leaves.lineno < node.lineno and own is loop and (loop is not None or isinstance(leaves, ast.Return)):
            yield _as_guard(guard, "asked", names)


@functools.lru_cache(maxsize=256)
def _leaves(scope: ast.AST) -> tuple[tuple[ast.Return | ast.Continue, ast.If], ...]:
    """The statements by which a scope is left, or a loop in it gone round, under a condition."""
    every = _parents(scope).items()
    found = ((own, guard) for own, guard in every if isinstance(own, ast.Return | ast.Continue))
    return tuple((own, guard) for own, guard in found if isinstance(guard, ast.If))[:MOST_LEAVES]


def _around(node: ast.AST, above: Mapping[ast.AST, ast.AST]) -> list[ast.AST]:
    found = []
    while (parent := above.get(node)) is not None:
        found.append(parent)
        node = parent
    return found


def _as_guard(guard: ast.If, kind: str, names: by_rank.ByRank) -> Enclosing:
    return Enclosing(kind, guard.lineno, text_of(guard.test), names.asks(guard.test))


def _left(statement: ast.stmt, names: by_rank.ByRank) -> Iterator[Enclosing]:
    if not isinstance(statement, ast.For | ast.AsyncFor):
        return
    above = _parents(statement)
    for node, parent in above.items():
        inner = any(isinstance(each, _Loop) for each in _around(node, above)[:-1])
        if isinstance(parent, ast.If) and (isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not inner)):
            yield _as_guard(parent, "left", names)


@functools.lru_cache(maxsize=8)
def _handed(tree: ast.Module) -> dict[str, list[Enclosing]]:
    """By function, the conditions under which the file hands it on; none where it also does so without."""
    names = by_rank.of(tree)
    scopes = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    functions = {scope.name for scope in scopes}
    found: dict[str, list[Enclosing]] = {}
    anyhow: set[str] = set()
    for scope in (tree, *scopes):
        above = _parents(scope)
        for node in above:
            calls = [each for each in called(node) if isinstance(each, ast.Call)]
            given = (each for call in calls for each in (*call.args, *(word.value for word in call.keywords)))
            for name in {_last(each) for each in given} & functions:
                guard = next((each for each in _around(node, above) if isinstance(each, ast.If)), None)
                if guard is None:
                    anyhow.add(name)
                else:
                    found.setdefault(name, []).append(_as_guard(guard, "handed", names))
    return {name: own for name, own in found.items() if name not in anyhow}


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@functools.lru_cache(maxsize=8)
def _data(tree: ast.Module) -> tuple[Enclosing, ...]:
    """What gives a framework its data, by the names of Lightning's and Transformers' hooks."""
    hooks = (node for node in ast.walk(tree) if isinstance(node, _Function) and _HOOK.fullmatch(node.name))
    returned = ((hook.name, each) for hook in hooks for each in ast.walk(hook) if isinstance(each, ast.Return))
    return tuple(Enclosing("data", each.lineno, name) for name, each in returned if each.value is not None)


_HOOK = lazy_re(r"(?:train|val|test|predict)_dataloader|get_(?:train|eval|test)_dataloader")


@functools.lru_cache(maxsize=8)
def _imported(tree: ast.Module) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
