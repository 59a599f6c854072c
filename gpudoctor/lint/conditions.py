"""Conditions on options, written as Python expressions, judged over what a text tells: true, false or not decided.

`num_layers % pipeline_model_parallel_size != 0 and not told(pipeline_layout)`: a name is an option's value, with dots
where the option has them; one that is not told is its default by the table, else None. What no text decides is
UNDECIDED, and so is all that is made of it, unless the rest of an `and` or `or` decides. No name is called or imported.
`told(fsdp)`: it is written; `words(fsdp) <= ('full_shard', 'offload')`: each of its words is among these.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.python_values import UNDECIDED, Undecided

ValueOf = Callable[[str], object]
_ON = frozenset(("true", "yes", "on"))
_OFF = frozenset(("false", "no", "off"))
_NOTHING = frozenset(("none", "null", "~", ""))
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_ORDER: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_NUMBER = lazy_re(r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


def value_of_word(text: str | None) -> object:
    """A word as programs read it: a number, true or false, nothing, else the word itself. None: a flag, which is on."""
    if text is None:
        return True
    word = text.strip().strip("\"'")
    if _NUMBER.fullmatch(word):
        number = float(word)
        return int(number) if re.fullmatch(r"[+-]?[0-9]+", word, re.ASCII) else number
    low = word.lower()
    return True if low in _ON else False if low in _OFF else None if low in _NOTHING else word


@lru_cache(maxsize=4096)
def parsed_condition(condition: str) -> ast.expr:
    return ast.parse(condition, mode="eval").body


@lru_cache(maxsize=4096)
def names_of(condition: str) -> tuple[str, ...]:
    """The options that a condition speaks of, in its order, once each."""
    return tuple(dict.fromkeys(_names(parsed_condition(condition))))


def _names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        yield ast.unparse(node)
    elif isinstance(node, ast.Call):
        for argument in node.args:
            yield from _names(argument)
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _names(child)


def holds(condition: str, value_of: ValueOf, is_told: Callable[[str], bool]) -> bool:
    """Whether a condition certainly holds."""
    return _truth(_value(parsed_condition(condition), value_of, is_told)) is True


def _truth(value: object) -> bool | None:
    return None if isinstance(value, Undecided) else bool(value)


def _value(node: ast.expr, value_of: ValueOf, is_told: Callable[[str], bool]) -> object:
    def inner(part: ast.expr) -> object:
        return _value(part, value_of, is_told)

    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute)):
        return value_of(ast.unparse(node))
    if isinstance(node, ast.Tuple):
        return tuple(inner(part) for part in node.elts)
    if isinstance(node, ast.BoolOp):
        decides = isinstance(node.op, ast.Or)
        truths = [_truth(inner(part)) for part in node.values]
        return decides if decides in truths else UNDECIDED if None in truths else not decides
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        truth = _truth(inner(node.operand))
        return UNDECIDED if truth is None else not truth
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):  # -1
        return ast.literal_eval(node)
    if isinstance(node, ast.BinOp):
        one, other = inner(node.left), inner(node.right)
        numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (one, other))
        if not numbers or (not other and isinstance(node.op, (ast.Mod, ast.FloorDiv))):
            return UNDECIDED
        return _OPERATORS[type(node.op)](one, other)  # type: ignore[arg-type]
    if isinstance(node, ast.Compare):
        return _compared(inner(node.left), node.ops[0], inner(node.comparators[0]))
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "words":  # words(name) <= (...)
        text = inner(node.args[0])
        return tuple(text.split()) if isinstance(text, str) and text != "..." else UNDECIDED
    if isinstance(node, ast.Call):  # told(name)
        return is_told(ast.unparse(node.args[0]))
    raise ValueError(ast.unparse(node))


def _compared(one: object, how: ast.cmpop, other: object) -> object:
    if isinstance(how, (ast.In, ast.NotIn)):
        within = isinstance(other, (tuple, str)) and (isinstance(other, tuple) or isinstance(one, str))
        if isinstance(one, Undecided) or isinstance(other, Undecided) or not within:
            return UNDECIDED
        return (one in other) == isinstance(how, ast.In)  # type: ignore[operator]
    if isinstance(one, Undecided) or isinstance(other, Undecided):
        return UNDECIDED
    if isinstance(how, (ast.Eq, ast.NotEq)):
        return (one == other) == isinstance(how, ast.Eq)
    if isinstance(one, tuple) and isinstance(other, tuple) and isinstance(how, ast.LtE):
        return set(one) <= set(other)
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return _ORDER[type(how)](one, other)
    return UNDECIDED
