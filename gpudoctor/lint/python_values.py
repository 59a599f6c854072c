"""What an expression of a program is worth: constants, names, mappings, what functions are called with, argparse's
options and the environment of the start. What is not decided is UNDECIDED, and never a guess."""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintLaunch
from gpudoctor.lint.program_arguments import option_call, option_of
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, constant, has_stars
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.spawning import set_variable, sets_more


class Undecided:
    """The type of UNDECIDED."""


UNDECIDED = Undecided()
DEEPEST = 12
"""Names, calls and options behind each other."""
MOST_NODES = 20_000
"""Of a program whose names are followed."""
CHANGES = frozenset(("update", "pop", "setdefault", "clear", "popitem", "append", "extend", "insert", "remove"))
OPERATORS: dict[type[ast.operator], Callable[[int | float, int | float], int | float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
LARGEST = 1 << 40
LONGEST = 64
"""Entries of a list that is made."""
ON_GPUS = lazy_re(r"is_available\(\)|device_count\(\) > 0")
"""Conditions that hold wherever somebody trains."""
Kind = Literal["text", "number"]
Bindings = dict[str, list[ast.expr | None]]


class PythonValues:
    """Of one program, as one start runs it. `is_fixed`: only what no start can change counts."""

    def __init__(
        self,
        code: PythonCode,
        launch: LintLaunch | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        is_fixed: bool = False,
    ) -> None:
        self.code = code
        self.launch = launch
        self.is_fixed = is_fixed
        self.known: dict[str, object] = {}
        """Names of the comprehension that is followed."""
        settings = launch.invocation.settings if launch is not None else {}
        self.environment = {
            name: each.word.text for name, each in settings.items() if each.exported and each.word.text is not None
        } | dict(environment or {})

    def number(self, node: ast.expr | None) -> int | None:
        """A whole number."""
        found = self.value(node)
        return found if type(found) is int and abs(found) < LARGEST else None

    def value(self, node: ast.expr | None, depth: int = 0) -> object:
        """The value; UNDECIDED where the text does not decide it."""
        if node is None or depth > DEEPEST:
            return UNDECIDED
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            named = self.known[node.id] if node.id in self.known else self.value(self.behind(node), depth + 1)
            return UNDECIDED if isinstance(named, list) and node.id in _changes(self.code) else named
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue, ast.ListComp)):
            return self._made(node, depth)
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand, depth + 1)
            if isinstance(node.op, ast.Not):
                return UNDECIDED if isinstance(inner, Undecided) else not inner
            return -inner if isinstance(node.op, ast.USub) and isinstance(inner, (int, float)) else UNDECIDED
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self.value(each, depth + 1) for each in node.elts]
            return UNDECIDED if any(isinstance(each, Undecided) for each in items) else items
        if isinstance(node, ast.BinOp):
            return self._of_two(node, depth)
        if isinstance(node, ast.IfExp):
            test = True if ON_GPUS.search(ast.unparse(node.test)) else self.value(node.test, depth + 1)
            return (
                UNDECIDED if isinstance(test, Undecided) else self.value(node.body if test else node.orelse, depth + 1)
            )
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            name = _variable(node)
            if name is not None:
                return self.variable(name)
            if self.code.name(node.value) == "sys.argv":
                return self._word(constant(node.slice))
            pieces, key = self.mapping(node.value, depth + 1), constant(node.slice)
            if pieces and isinstance(key, str) and key in pieces:
                return self.value(pieces[key], depth + 1)
            entries = self.value(node.value, depth + 1) if type(key) is int else UNDECIDED
            inside = isinstance(entries, list) and type(key) is int and -len(entries) <= key < len(entries)
            return entries[key] if inside and isinstance(entries, list) and type(key) is int else UNDECIDED
        return self._call(node, depth) if isinstance(node, ast.Call) else UNDECIDED

    def _word(self, place: object) -> object:
        """sys.argv[place], as the start gives it."""
        words = self.launch.script_words if self.launch is not None and not self.is_fixed else ()
        if type(place) is not int or not 0 < place <= len(words) or any(each.text is None for each in words):
            return UNDECIDED
        return words[place - 1].text

    def _of_two(self, node: ast.BinOp, depth: int) -> object:
        one, other = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        apply = OPERATORS.get(type(node.op))
        if apply is None or isinstance(one, bool) or isinstance(other, bool):
            return UNDECIDED
        if isinstance(one, (int, float)) and isinstance(other, (int, float)) and max(abs(one), abs(other)) < LARGEST:
            return apply(one, other) if other or not isinstance(node.op, (ast.FloorDiv, ast.Mod)) else UNDECIDED
        both = isinstance(one, str) and isinstance(other, str) and isinstance(node.op, ast.Add)
        return one + other if both and isinstance(one, str) and isinstance(other, str) else UNDECIDED

    def _attribute(self, node: ast.Attribute) -> object:
        """`args.gpus`, as argparse makes it of the words of the start."""
        call = option_call(self.code, node.attr)
        if not isinstance(node.value, ast.Name) or call is None or self.is_fixed:
            return UNDECIDED
        text, kind = option_of(self.code, node.attr, self.launch), argument(call, "type")
        if text is None or any(each.arg in ("action", "nargs") for each in call.keywords):
            return UNDECIDED
        is_default = text == str(constant(argument(call, "default")))
        if is_default and not isinstance(constant(argument(call, "default")), str):
            return constant(argument(call, "default"))
        name = kind.id if isinstance(kind, ast.Name) else "" if kind is not None else "str"
        return _cast(name, text)

    def _call(self, node: ast.Call, depth: int) -> object:
        name = self.code.name(node.func)
        if name in ("os.getenv", "os.environ.get"):
            variable = constant(argument(node, "key", 0))
            return self.variable(variable) if isinstance(variable, str) else UNDECIDED
        if isinstance(node.func, ast.Attribute) and node.func.attr == "split" and not name and not node.keywords:
            text, sign = self.value(node.func.value, depth + 1), constant(node.args[0]) if node.args else None
            plain = isinstance(text, str) and (not node.args or (isinstance(sign, str) and sign))
            return text.split(sign if isinstance(sign, str) else None) if plain and isinstance(text, str) else UNDECIDED
        if isinstance(node.func, ast.Name) and node.func.id == "map" and len(node.args) == 2:
            items, kind = self.value(node.args[1], depth + 1), ast.unparse(node.args[0])
            made = [_cast(kind, each) for each in items] if isinstance(items, list) else [UNDECIDED]
            return UNDECIDED if any(isinstance(each, Undecided) for each in made) else made
        if isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
            inner = self.value(node.args[0], depth + 1)
            if node.func.id == "len":
                return len(inner) if isinstance(inner, (list, str)) else UNDECIDED
            if node.func.id == "range":
                return list(range(inner)) if type(inner) is int and 0 < inner <= LONGEST else UNDECIDED
            if node.func.id in ("list", "tuple"):
                return inner if isinstance(inner, list) else UNDECIDED
            return _cast(node.func.id, inner)
        return UNDECIDED

    def variable(self, name: str) -> object:
        """A variable that the program sets itself, else that of its start."""
        own = own_variables(self.code)
        if name in own:
            return self.value(own[name])
        return UNDECIDED if self.is_fixed else self.environment.get(name, UNDECIDED)

    def _made(self, node: ast.JoinedStr | ast.FormattedValue | ast.ListComp, depth: int) -> object:
        """`f"cuda:{gpu}"`, `[int(each) for each in "0,1".split(",")]`."""
        if isinstance(node, ast.FormattedValue):
            return self.value(node.value, depth + 1) if node.format_spec is None else UNDECIDED
        if isinstance(node, ast.JoinedStr):
            parts = [self.value(each, depth + 1) for each in node.values]
            return UNDECIDED if any(isinstance(each, Undecided) for each in parts) else "".join(map(str, parts))
        loop = node.generators[0]
        items = self.value(loop.iter, depth + 1)
        target = loop.target.id if isinstance(loop.target, ast.Name) and len(node.generators) == 1 else ""
        if not isinstance(items, list) or loop.ifs or not target or len(items) > LONGEST:
            return UNDECIDED
        made = []
        for item in items:
            self.known[target] = item
            made.append(self.value(node.elt, depth + 1))
            self.known.pop(target, None)
        return UNDECIDED if any(isinstance(each, Undecided) for each in made) else made

    def mapping(self, node: ast.expr | None, depth: int = 0) -> dict[str, ast.expr] | None:
        """What a mapping holds, by its keys: `{...}`, `dict(...)`, `a | b`, a name of such. None: not all of it is
        known."""
        if depth > DEEPEST or node is None:
            return None
        if isinstance(node, ast.Name):
            bound = self.behind(node)
            pieces = self.mapping(bound, depth + 1) if bound is not None else None
            return self._changed(node, pieces, depth) if pieces is not None else None
        found: dict[str, ast.expr] = {}
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                inner = self.mapping(value, depth + 1) if key is None else None
                name = constant(key)
                if key is None and inner is not None:
                    found |= inner
                elif isinstance(name, str):
                    found[name] = value
                else:
                    return None
            return found
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            one, other = self.mapping(node.left, depth + 1), self.mapping(node.right, depth + 1)
            return one | other if one is not None and other is not None else None
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args:
            return self.mapping(node.func.value, depth + 1)
        if not isinstance(node.func, ast.Name) or node.func.id != "dict":
            return None
        for given in (*node.args, *(each.value for each in node.keywords if each.arg is None)):
            inner = self.mapping(given, depth + 1)
            if inner is None:
                return None
            found |= inner
        return found | {each.arg: each.value for each in node.keywords if each.arg is not None}

    def _changed(self, name: ast.Name, pieces: dict[str, ast.expr], depth: int) -> dict[str, ast.expr] | None:
        """With `x[key] = value` and `x.update(...)` of the same scope in the order of the text; None where a change
        may happen or not."""
        scope = self.code.scope_of(name)
        for node in _changes(self.code).get(name.id, ()):
            if node.lineno > name.lineno:
                continue
            if self.code.scope_of(node) is not scope or self.code.is_conditional(node):
                return None
            if isinstance(node, ast.Subscript):
                key, statement = constant(node.slice), self.code.parents.get(node)
                if not isinstance(key, str) or not isinstance(statement, ast.Assign):
                    return None
                pieces = pieces | {key: statement.value}
                continue
            called = self.code.parents.get(node)
            if not isinstance(called, ast.Call) or not isinstance(node, ast.Attribute) or node.attr != "update":
                return None
            new = self.mapping(called.args[0], depth + 1) if called.args else {}
            if new is None or any(each.arg is None for each in called.keywords):
                return None
            pieces = pieces | new | {each.arg: each.value for each in called.keywords if each.arg is not None}
        return pieces

    def behind(self, node: ast.Name) -> ast.expr | None:
        """The expression that a name stands for: bound once in its function or in the module, or a parameter that all
        calls of the function give alike."""
        scope = self.code.scope_of(node)
        while True:
            bound = bindings(self.code).get(scope, {}).get(node.id)
            if bound is not None:
                return bound[0] if len(bound) == 1 else None
            if isinstance(scope, FUNCTIONS) and _parameter(scope, node.id) is not None:
                return self._given(scope, node.id)
            if isinstance(scope, ast.Module):
                return None
            scope = self.code.scope_of(scope)

    def _given(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
        """What a function's parameter is, where one call of the program gives it; its default without one."""
        place = _parameter(function, name)
        uses = [
            each for each in self.code.nodes
            if isinstance(each, ast.Name) and each.id == function.name and isinstance(each.ctx, ast.Load)
        ]  # fmt: skip
        called = [self.code.parents.get(each) for each in uses]
        calls = [
            each for each, use in zip(called, uses, strict=True) if isinstance(each, ast.Call) and each.func is use
        ]
        if len(calls) != 1 or len(uses) != 1 or has_stars(calls[0]) or function not in self.code.tree.body:
            return None
        told = argument(calls[0], name, place if place is not None and place >= 0 else None)
        if told is not None:
            return told
        every = function.args
        if place is not None and place >= 0:
            back = len(every.posonlyargs) + len(every.args) - place
            return every.defaults[-back] if back <= len(every.defaults) else None
        index = [each.arg for each in every.kwonlyargs].index(name)
        return every.kw_defaults[index]

    def kind(self, node: ast.expr | None, depth: int = 0) -> Kind | None:
        """Whether it certainly is text, or a number; None where it may be either."""
        if node is None or depth > DEEPEST:
            return None
        if isinstance(node, ast.Constant):
            is_number = type(node.value) in (int, float)
            return "text" if isinstance(node.value, str) else "number" if is_number else None
        if isinstance(node, ast.JoinedStr):
            return "text"
        if isinstance(node, ast.Name):
            return self.kind(self.behind(node), depth + 1)
        if isinstance(node, ast.Subscript):
            of_words = self.code.name(node.value) == "sys.argv" and type(constant(node.slice)) is int
            return "text" if _variable(node) is not None or of_words else None
        if isinstance(node, ast.BinOp):
            kinds = {self.kind(node.left, depth + 1), self.kind(node.right, depth + 1)}
            return "number" if kinds == {"number"} else None
        if isinstance(node, ast.Attribute):
            return self._kind_of_option(node)
        if not isinstance(node, ast.Call):
            return None
        name = self.code.name(node.func)
        if name in ("os.getenv", "os.environ.get"):
            default = argument(node, "default", 1)
            return "text" if default is None or self.kind(default, depth + 1) == "text" else None
        if name in ("torch.cuda.device_count", "torch.distributed.get_rank", "torch.distributed.get_world_size"):
            return "number"
        plain = node.func.id if isinstance(node.func, ast.Name) and node.func.id not in self.code.own else ""
        return "number" if plain in ("int", "float", "len") else "text" if plain in ("str", "input") else None

    def _kind_of_option(self, node: ast.Attribute) -> Kind | None:
        call = option_call(self.code, node.attr)
        if call is None or not isinstance(node.value, ast.Name) or has_stars(call):
            return None
        told = {each.arg: each.value for each in call.keywords}
        if told.keys() & {"action", "nargs", "choices"} or f".{node.attr} =" in self.code.text:
            return None
        default = constant(told.get("default"))
        kind = told.get("type")
        if isinstance(kind, ast.Name) and kind.id in ("int", "float"):
            return "number" if default is not None or constant(told.get("required")) is True else None
        if kind is not None and not (isinstance(kind, ast.Name) and kind.id == "str"):
            return None
        sure = isinstance(default, str) or constant(told.get("required")) is True
        return "text" if sure or (self.launch is not None and _is_given(call, self.launch)) else None


def _is_given(call: ast.Call, launch: LintLaunch) -> bool:
    spellings = [constant(each) for each in call.args]
    return any(word.text is not None and word.text.partition("=")[0] in spellings for word in launch.script_words)


@lru_cache(maxsize=16)
def own_variables(code: PythonCode) -> dict[str, ast.expr | None]:
    """The variables of its environment that a program sets, and their values; None where it does so twice, or where the
    environment may have its own say."""
    own: dict[str, ast.expr | None] = {}
    for node in code.nodes:
        if isinstance(node, ast.Assign) and (name := set_variable(code, node)):
            own[name] = None if name in own or code.is_conditional(node) else node.value
        elif isinstance(node, ast.Call) and code.name(node.func) in ("os.environ.setdefault", "os.putenv"):
            told = constant(argument(node, "key", 0))
            if isinstance(told, str):
                own[told] = None
    return {} if sets_more(code) else own


def _cast(name: str, value: object) -> object:
    if name == "str" and isinstance(value, (str, int, float)):
        return str(value)
    if name not in ("int", "float") or not isinstance(value, (str, int, float)):
        return UNDECIDED
    try:
        return int(value) if name == "int" else float(value)
    except (ValueError, OverflowError):
        return UNDECIDED


def _variable(node: ast.Subscript) -> str | None:
    """NAME of os.environ["NAME"]."""
    name = constant(node.slice) if last_name(node.value) == "environ" else None
    return name if isinstance(name, str) else None


def _parameter(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> int | None:
    """Its place; -1 of one that comes by its name only; None of what is no parameter."""
    every = function.args
    plain = [each.arg for each in (*every.posonlyargs, *every.args)]
    if name in plain:
        return plain.index(name)
    others = [*every.kwonlyargs, *(each for each in (every.vararg, every.kwarg) if each is not None)]
    return -1 if name in [each.arg for each in others[: len(every.kwonlyargs)]] else None


@lru_cache(maxsize=32)
def bindings(code: PythonCode) -> dict[ast.AST, Bindings]:
    """What binds each name of a function or the module, in order; None for what is no plain assignment."""
    found: dict[ast.AST, Bindings] = {}
    if len(code.nodes) > MOST_NODES:
        return found
    for node in code.nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                found.setdefault(code.scope_of(node), {}).setdefault(name, []).append(None)
                found.setdefault(code.tree, {}).setdefault(name, []).append(None)
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.setdefault(code.scope_of(node), {}).setdefault(node.id, []).append(_assigned(code, node))
    return found


def _assigned(code: PythonCode, name: ast.Name) -> ast.expr | None:
    above = code.parents.get(name)
    if isinstance(above, ast.Assign) and name in above.targets:
        return above.value
    if isinstance(above, (ast.AnnAssign, ast.NamedExpr)) and above.target is name:
        return above.value
    outer = code.parents.get(above) if isinstance(above, (ast.Tuple, ast.List)) else None
    if isinstance(outer, ast.Assign) and isinstance(above, (ast.Tuple, ast.List)) and above in outer.targets:
        values = outer.value
        if isinstance(values, (ast.Tuple, ast.List)) and len(values.elts) == len(above.elts):
            return values.elts[above.elts.index(name)]
    return None


@lru_cache(maxsize=32)
def _changes(code: PythonCode) -> dict[str, Sequence[ast.Subscript | ast.Attribute]]:
    """Where mappings of a name are changed, in the order of the text."""
    found: dict[str, list[ast.Subscript | ast.Attribute]] = {}
    for node in code.nodes:
        if not isinstance(node, (ast.Subscript, ast.Attribute)) or not isinstance(node.value, ast.Name):
            continue
        stored = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        if stored or (isinstance(node, ast.Attribute) and node.attr in CHANGES):
            found.setdefault(node.value.id, []).append(node)
    return {name: sorted(each, key=lambda node: (node.lineno, node.col_offset)) for name, each in found.items()}
