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
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.lazy import lazy_re
from gpudoctor.read.job import by_rank
from gpudoctor.read.job.source_text import text_of
from gpudoctor.read.job.source_walk import called, children
from gpudoctor.snapshot.evidence import Enclosing

MOST_TOLD = 8
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Loop = ast.For | ast.AsyncFor | ast.While


def objects(
    tree: ast.Module, statement: ast.stmt, scope: ast.AST, owner: ast.ClassDef | None, names: by_rank.ByRank
) -> list[Enclosing]:
    """All of it of one statement, each once."""
    found = [*_of_receivers(tree, statement, scope, owner, names), *_left(statement, names), *_data(tree)]
    if isinstance(scope, _Function):
        found += _handed(tree, scope.name, names)
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
                if _is_object(each):
                    found[text_of(each)] = None
    over = statement.iter if isinstance(statement, ast.For | ast.AsyncFor) else None
    if over is not None and _is_object(over):
        found[text_of(over)] = None
    return found


def _is_object(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node, ast.Name) and node.id != "self"


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
        if isinstance(value, ast.Call) and any(each is not None and text_of(each) == name for each in targets):
            yield Enclosing("made", value.lineno, text_of(value))
        calls = [each for each in called(node) if isinstance(each, ast.Call) and _calls(each, name)]
        if not calls:
            continue
        if isinstance(node, ast.Expr) and node is not line:
            given_to = [*calls[0].args, *(word.value for word in calls[0].keywords)]
            if len(given_to) == 1 and _is_truth(given_to[0], truths):
                yield Enclosing("told", node.lineno, text_of(given_to[0]))
        if isinstance(node, ast.stmt):
            yield from _led_past(node, line, above, names)


def _calls(call: ast.Call, name: str) -> bool:
    method = call.func
    return text_of(method) == name or (isinstance(method, ast.Attribute) and text_of(method.value) == name)


def _is_truth(node: ast.AST, truths: frozenset[str] | set[str]) -> bool:
    return (
        isinstance(node, ast.Compare | ast.BoolOp)
        or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
        or (isinstance(node, ast.Name) and node.id in truths)
    )


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


def _led_past(
    node: ast.stmt, line: ast.stmt, above: Mapping[ast.AST, ast.AST], names: by_rank.ByRank
) -> Iterator[Enclosing]:
    """The innermost condition around a call that is not around the line too, or else the `continue` and `return` above
    it."""
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
    for each, parent in above.items():
        leaves = isinstance(each, ast.Return) or (isinstance(each, ast.Continue) and loop is not None)
        if leaves and getattr(each, "lineno", 0) < node.lineno and isinstance(parent, ast.If):
            inner = next((up for up in _around(each, above) if isinstance(up, _Loop)), None)
            if inner is loop:
                yield _as_guard(parent, "asked", names)


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


def _handed(tree: ast.Module, name: str, names: by_rank.ByRank) -> list[Enclosing]:
    """The conditions under which the file hands on its function of this name; none where it also does so without."""
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, _Function))]
    found: list[Enclosing] = []
    for scope in scopes:
        above = _parents(scope)
        for node in above:
            given = [
                each
                for call in called(node)
                if isinstance(call, ast.Call)
                for each in (*call.args, *(word.value for word in call.keywords))
                if isinstance(each, ast.Name | ast.Attribute) and text_of(each).rpartition(".")[2] == name
            ]
            if not given:
                continue
            guard = next((each for each in _around(node, above) if isinstance(each, ast.If)), None)
            if guard is None:
                return []
            found.append(_as_guard(guard, "handed", names))
    return found


def _data(tree: ast.Module) -> Iterator[Enclosing]:
    """What gives a framework its data, by the names of Lightning's and Transformers' hooks."""
    for node in ast.walk(tree):
        if isinstance(node, _Function) and _HOOK.fullmatch(node.name):
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and each.value is not None:
                    yield Enclosing("data", each.lineno, node.name)


_HOOK = lazy_re(r"(?:train|val|test|predict)_dataloader|get_(?:train|eval|test)_dataloader")


def _imported(tree: ast.Module) -> set[str]:
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
