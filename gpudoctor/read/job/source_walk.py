"""Statements of a program's file, each with the conditions around it, and the expressions of each.

The tree may be anybody's: nothing here recurses with its depth."""

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpudoctor.read.job import by_rank
from gpudoctor.read.job.source_text import cut, text_of
from gpudoctor.snapshot.evidence import Enclosing

MOST_FUNCTIONS = 512
"""Functions of a file that are looked into for collectives."""


def children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The statements, handlers and cases directly below a statement, each with the field that holds it."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        held = getattr(node, part, None)
        if isinstance(held, list):
            for child in held:
                if isinstance(child, ast.match_case):  # it has no line of its own
                    for inner in child.body:
                        yield (part, inner)
                elif isinstance(child, ast.stmt | ast.ExceptHandler):
                    yield (part, child)


class Guarded(NamedTuple):
    """A statement with the conditions around it, the innermost last."""

    node: ast.AST
    guards: tuple[tuple[str, str], ...]
    """Each as text, and what it asks of the rank."""
    in_loop: bool
    """In a loop inside the region: its `break` and `continue` do not leave the region."""


def walk(region: ast.AST, names: by_rank.ByRank | None = None) -> Iterator[Guarded]:
    """The statements of a region in the order of its text, without those of functions and classes inside it."""
    stack = [Guarded(child, (), False) for _, child in reversed(list(children(region)))]
    while stack:
        statement = stack.pop()
        yield statement
        node = statement.node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        loops = isinstance(node, ast.For | ast.AsyncFor | ast.While)
        for part, child in reversed(list(children(node))):
            guards = statement.guards
            if isinstance(node, ast.If):
                test, asks = text_of(node.test), names.asks(node.test) if names is not None else ""
                other = f"not ({asks})" if asks else ""
                guards = (*guards, (test, asks) if part == "body" else (f"not ({test})", other))
            elif isinstance(node, ast.While) and part == "body":
                guards = (*guards, (text_of(node.test), ""))
            elif isinstance(node, ast.ExceptHandler):
                guards = (*guards, (f"except {text_of(node.type)}" if node.type is not None else "except", ""))
            stack.append(Guarded(child, guards[-4:], statement.in_loop or (loops and part == "body")))


def functions_of(tree: ast.Module) -> dict[str, ast.AST]:
    """The functions and methods of a file, by name; of two with one name none, for which is called is not known."""
    found: dict[str, ast.AST] = {}
    twice: set[str] = set()
    for node in tree.body:
        for own in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(own, ast.FunctionDef | ast.AsyncFunctionDef) and len(found) < MOST_FUNCTIONS:
                twice |= {own.name} & set(found)
                found[own.name] = own
    return {name: node for name, node in found.items() if name not in twice}


def own_name(node: ast.AST, functions: Mapping[str, ast.AST]) -> str:
    """The function of this file that a call calls: `evaluate(...)`, `self.evaluate(...)`."""
    function = node.func if isinstance(node, ast.Call) else None
    name = ""
    if isinstance(function, ast.Name):
        name = function.id
    elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
        name = function.attr
    return name if name in functions else ""


def called(statement: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a statement itself, without those of statements below it."""
    for part, child in ast.iter_fields(statement):
        if part not in _BLOCKS:
            yield from _expressions(child)


_BLOCKS = frozenset(("body", "orelse", "finalbody", "handlers", "cases", "decorator_list"))


def _expressions(field: object) -> Iterator[ast.AST]:
    for value in field if isinstance(field, list) else [field]:
        if isinstance(value, ast.AST):
            yield from ast.walk(value)


def guarded(name: str, call: ast.AST, found: Guarded) -> Enclosing:
    """A call, with the innermost condition around it."""
    guard, asks = found.guards[-1] if found.guards else ("", "")
    return Enclosing(name, int(getattr(call, "lineno", 0)), cut(guard), asks)
