"""Under which condition on the rank a program makes the objects of a class: what only one rank has, only it calls.

if rank == 0:
    trainer.callbacks.append(AverageLoss())       # every method of AverageLoss runs on rank 0 alone

Or hands on an object that all have: `if rank == 0: state["progress"] = self.progress`.
"""

import ast
from collections.abc import Iterator

from gpudoctor.read.job import by_rank
from gpudoctor.read.job.source_text import cut, text_of
from gpudoctor.read.job.source_walk import called, walk
from gpudoctor.snapshot.evidence import Enclosing


def made_under(tree: ast.Module, name: str, names: by_rank.ByRank) -> Iterator[Enclosing]:
    """The condition on the rank below which the file makes this class's objects; nothing where it makes one without
    such a condition, makes none, or hands the class on."""
    uses = _named(tree, name) - sum(_named(annotation, name) for annotation in _annotations(tree))
    if uses <= 0:
        return  # the file of a library, as a rule
    conditions: list[Enclosing] = []
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for scope in (tree, *scopes):
        for statement in walk(scope, names):
            for made, condition in _made(statement.node, name, names):
                around = next((guard for guard in reversed(statement.guards) if guard[1]), None)
                if condition is None and around is not None:
                    condition = Enclosing("if", made.lineno, cut(around[0]), around[1])
                if condition is None:
                    return
                conditions.append(condition)
    if conditions and len(conditions) == uses and len({condition.asks for condition in conditions}) == 1:
        yield conditions[0]


def handed_under(tree: ast.Module, name: str, method: str, names: by_rank.ByRank) -> Iterator[Enclosing]:
    """The condition on the rank below which the file hands on what it has made of this class, so that others may call
    this method; nothing where it does so without, or calls the method itself."""
    nodes = list(ast.walk(tree))
    kept = {
        text_of(target)
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.value.func, ast.Name) and node.value.func.id == name
        for target in node.targets
    }
    asked = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
    scopes = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    found: list[Enclosing] = []
    for scope in (tree, *scopes) if kept else ():
        for statement in walk(scope, names):
            for node in called(statement.node):
                loads = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
                if not loads or text_of(node) not in kept or asked.get(id(node), method) != method:
                    continue
                around = next((guard for guard in reversed(statement.guards) if guard[1]), None)
                if id(node) in asked or around is None:
                    return
                found.append(Enclosing("if", getattr(node, "lineno", 0), cut(around[0]), around[1]))
    if found and len({condition.asks for condition in found}) == 1:
        yield found[0]


def _made(statement: ast.AST, name: str, names: by_rank.ByRank) -> Iterator[tuple[ast.Call, Enclosing | None]]:
    """Where a statement makes an object of the class, with the condition inside of it: `Log() if main else None`."""
    expressions = list(called(statement))
    chosen = {
        id(inner): Enclosing(
            "if" if branch is expression.body else "else", expression.lineno, text_of(expression.test), asks
        )
        for expression in expressions
        if isinstance(expression, ast.IfExp) and (asks := names.asks(expression.test))
        for branch in (expression.body, expression.orelse)
        for inner in ast.walk(branch)
    }
    for each in expressions:
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == name:
            yield each, chosen.get(id(each))


def _named(tree: ast.AST, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def _annotations(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        parts = (getattr(node, "annotation", None), getattr(node, "returns", None))
        yield from (part for part in parts if isinstance(part, ast.AST))
