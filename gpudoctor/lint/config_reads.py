"""Where a program reads a key of its configuration or an option of its parser, by the names that hold it.

A name is followed into functions of the text that it is handed to as it is. What may fill it otherwise (a store, an
update, a merge) is no answer.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, constant

METHODS = frozenset(("get", "items", "keys", "values", "pop", "copy", "setdefault", "update"))
DEEPEST = 3
Holder = tuple[ast.AST, str]
"""A scope and the name in it."""


class ConfigRead(Struct, frozen=True, eq=False):
    """`cfg.a.b` or `cfg["a"]["b"]`, all of it."""

    node: ast.expr
    path: tuple[str, ...]
    by_attribute: bool
    """Its last key is read as an attribute."""


def holders(code: PythonCode, first: Holder) -> set[Holder]:
    """The names that hold the same object: its own, and parameters of functions that are given it by position."""
    found, waiting = {first}, [first]
    for _ in range(DEEPEST):
        handed = [new for scope, name in waiting for new in _handed(code, scope, name)]
        waiting = [each for each in handed if each not in found]
        found |= set(waiting)
    return found


def _handed(code: PythonCode, scope: ast.AST, name: str) -> Iterator[Holder]:
    for call in code.calls:
        function = code.functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if function is None or function.decorator_list or any(isinstance(each, ast.Starred) for each in call.args):
            continue
        others = [each for each in code.calls if isinstance(each.func, ast.Name) and each.func.id == function.name]
        for place, given in enumerate(call.args[: len(function.args.args)]):
            alike = {ast.unparse(each.args[place]) if place < len(each.args) else "" for each in others}
            if len(alike) > 1:
                continue  # another object too
            if isinstance(given, ast.Name) and given.id == name and _sees(code, given, scope, name):
                yield function, function.args.args[place].arg


def _sees(code: PythonCode, node: ast.AST, scope: ast.AST, name: str) -> bool:
    """Whether a name means that of a scope: it stands there, or in a function that has none of its own."""
    here = code.scope_of(node)
    while here is not scope:
        if isinstance(here, ast.Module) or binds(code, here, name):
            return False
        here = code.scope_of(here)
    return True


def binds(code: PythonCode, scope: ast.AST, name: str) -> int:
    """How often a scope gives a name a value, its parameters among them."""
    return _bindings(code)[scope, name]


@lru_cache(maxsize=16)
def _bindings(code: PythonCode) -> Counter[Holder]:
    made: Counter[Holder] = Counter()
    for node in code.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made[code.scope_of(node), node.id] += 1
        elif isinstance(node, (*FUNCTIONS, ast.Lambda)):
            taken = node.args
            made.update((node, each.arg) for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs))
    return made


def reads(code: PythonCode, held: set[Holder], attributes: bool = True) -> Iterator[ConfigRead]:
    """Every key that is certainly asked for where the program comes by, in what nobody else may have filled; not those
    that are tried, or asked about."""
    found: list[ConfigRead] = []
    let_go: set[tuple[str, ...]] = set()
    for node in _uses(code, held):
        last, path, by_attribute = _chain(code, node, attributes)
        if path and not _is_tried(code, last) and not any(key.startswith("_") for key in path):
            found.append(ConfigRead(last, path, by_attribute))
        if _is_let_go(code, last, held):
            let_go.add(path)
    for read in found:
        if not any(read.path[: len(path)] == path for path in let_go if len(path) < len(read.path)):
            yield read


def _uses(code: PythonCode, held: set[Holder]) -> Iterator[ast.Name]:
    names = {name for _, name in held}
    for node in code.nodes:
        if not isinstance(node, ast.Name) or node.id not in names or not isinstance(node.ctx, ast.Load):
            continue
        if any(name == node.id and _sees(code, node, scope, name) for scope, name in held):
            yield node


def _chain(code: PythonCode, node: ast.expr, attributes: bool) -> tuple[ast.expr, tuple[str, ...], bool]:
    """`cfg.a["b"]` from its name on: all of it, its keys, and whether the last is an attribute. No key of what is
    stored."""
    path: list[str] = []
    last, above, by_attribute = node, code.parents.get(node), False
    while isinstance(above, (ast.Attribute, ast.Subscript)) and above.value is last:
        key = _key(above)
        is_method = isinstance(above, ast.Attribute) and (not attributes or key in METHODS)
        if not isinstance(above.ctx, ast.Load) or is_method or key is None:
            break
        by_attribute = isinstance(above, ast.Attribute)
        path.append(key)
        last, above = above, code.parents.get(above)
    return last, tuple(path), by_attribute


_HARMLESS = frozenset(
    ("print", "str", "repr", "len", "vars", "isinstance", "hasattr", "getattr", "dict", "list", "to_yaml",
     "to_container", "dumps", "pformat", "pprint", "info", "debug", "warning", "int", "float", "bool", "range", "open",
     "sorted", "sum", "max", "min", "tuple", "set", "Path", "join", "device")
)  # fmt: skip
"""Functions that put nothing into what they are given."""


def _is_let_go(code: PythonCode, node: ast.expr, held: set[Holder]) -> bool:
    """Whether others get the object itself, and may put more into it: a function that is not followed, another name."""
    inner: ast.AST = node
    above = code.parents.get(inner)
    while isinstance(above, (ast.Starred, ast.keyword, ast.Tuple, ast.List, ast.Dict, ast.IfExp, ast.BoolOp)):
        inner, above = above, code.parents.get(above)
    if isinstance(above, ast.Call):
        if above.func is inner:
            return False
        called = above.func.attr if isinstance(above.func, ast.Attribute) else getattr(above.func, "id", "")
        function = code.functions.get(called) if isinstance(above.func, ast.Name) else None
        followed = function is not None and any(scope is function for scope, _ in held)
        return not followed and called not in _HARMLESS
    return isinstance(above, (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.Yield, ast.With, ast.withitem))


def _is_tried(code: PythonCode, node: ast.AST) -> bool:
    for above in code.around(node):
        if isinstance(above, ast.Try):
            return True
        if isinstance(above, (ast.If, ast.IfExp)) and re.search(
            r"\bin\b|hasattr|getattr|\.get\(", ast.unparse(above.test)
        ):
            return True
        if isinstance(above, ast.BoolOp) and re.search(r"\bin\b|hasattr", ast.unparse(above)):
            return True
        if isinstance(above, FUNCTIONS):
            return False
    return False


def is_changed(code: PythonCode, held: set[Holder]) -> bool:
    """Whether the program may put more into it than was there."""
    if re.search(r"setattr\(|__dict__|open_dict|set_struct|OmegaConf\.(?:update|merge|unsafe)|__setitem__", code.text):
        return True
    if any(_key(node) is None for node in _put_into(code, held) if isinstance(node.ctx, ast.Store)):
        return True
    for node in code.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in (
            "update", "setdefault", "merge_with", "merge_from_file", "merge_from_list"
        ):  # fmt: skip
            return True
    return any(binds(code, scope, name) != 1 for scope, name in held)


def _put_into(code: PythonCode, held: set[Holder]) -> Iterator[ast.Attribute | ast.Subscript]:
    """What is given a value, or taken out, below one of these names: `args.world_size`, `cfg["trainer"]["rank"]`."""
    names = {name for _, name in held}
    for node in code.nodes:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            root: ast.expr = node
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            if isinstance(root, ast.Name) and root.id in names:
                yield node


def _key(node: ast.Attribute | ast.Subscript) -> str | None:
    """The last one of a chain; None: it is not certain."""
    key = node.attr if isinstance(node, ast.Attribute) else constant(node.slice)
    return key if isinstance(key, str) else None


def stored(code: PythonCode, held: set[Holder]) -> set[str]:
    """Last keys that the program itself puts in: `args.world_size = 4`, `cfg["rank"] = 0`."""
    return {key for node in _put_into(code, held) if (key := _key(node)) is not None}
