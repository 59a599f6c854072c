"""Ways out of a loop that stand in what it goes over: an iterator of the program's own that something else ends.

counter = EpochCounter(100)
for epoch in counter:               # __next__ raises StopIteration where counter.current >= counter.limit
    if stopper.says_so(loss):
        counter.current = counter.limit          # and this rank's loop ends where the others' go on
"""

import ast
from collections.abc import Iterator

from gpudoctor.read.job import by_rank
from gpudoctor.read.job.source_text import cut, text_of
from gpudoctor.read.job.source_walk import walk
from gpudoctor.snapshot.evidence import Enclosing

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FIRST = (0, 0.0, None, False)
"""What an iterator is set to where it begins anew."""


def ended_within(tree: ast.Module, loop: ast.AST | None, names: by_rank.ByRank) -> Iterator[Enclosing]:
    """The conditions below which a class of the file ends a loop over its objects, as `break` would, where what they
    ask is set elsewhere than in the iterator itself: one that only counts on, or runs out of data, decides nothing."""
    if not isinstance(loop, ast.For | ast.AsyncFor) or (name := _class_of(tree, loop.iter)) is None:
        return
    owner = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)
    ways = [] if owner is None else [node for node in owner.body if isinstance(node, _FUNCTIONS) and _goes_on(node)]
    if not ways:
        return
    inside = {id(node) for way in ways for node in ast.walk(way)}
    set_elsewhere = {
        target.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AugAssign) and id(node) not in inside and not _begins(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else (node.target,))
        if isinstance(target, ast.Attribute) and not _made_in(owner, node)
    }
    for way in ways:
        for statement in walk(way, names):
            if _ends(statement.node) and statement.guards:
                guard, asks = statement.guards[-1]
                if set_elsewhere & _attributes(guard):
                    asked_at = (n.lineno for n in ast.walk(way) if isinstance(n, ast.If) and text_of(n.test) == guard)
                    yield Enclosing("break", next(asked_at, way.lineno), cut(guard), asks)


def _class_of(tree: ast.Module, over: ast.expr) -> str | None:
    """The class whose object a loop goes over: of `Counter(9)`, or of a name that is given one."""
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name):
        return over.func.id
    text = text_of(over)
    made = {
        node.value.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        if any(text_of(target) == text for target in node.targets)
    }
    return made.pop() if len(made) == 1 else None


def _goes_on(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return function.name in ("__next__", "__anext__", "__iter__", "__aiter__")


def _ends(node: ast.AST) -> bool:
    """`raise StopIteration`, or the `return` of a generator."""
    raised = node.exc if isinstance(node, ast.Raise) else None
    raised = raised.func if isinstance(raised, ast.Call) else raised
    named = isinstance(raised, ast.Name) and raised.id in ("StopIteration", "StopAsyncIteration")
    return named or (isinstance(node, ast.Return) and node.value is None)


def _begins(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value in _FIRST


def _made_in(owner: ast.ClassDef | None, node: ast.AST) -> bool:
    """Whether an attribute is set where the object is made."""
    return owner is not None and any(
        isinstance(own, ast.FunctionDef) and own.name == "__init__" and node in ast.walk(own) for own in owner.body
    )


def _attributes(condition: str) -> set[str]:
    try:
        tree = ast.parse(condition, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it may have been cut short
        return set()
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
