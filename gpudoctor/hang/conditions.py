"""What a condition of the program comes to, as far as what it names is known: the one walker of conditions here."""

import ast
import operator
from collections.abc import Callable, Iterator

Known = Callable[[ast.expr], float | None]
"""What a name, an attribute or a call stands for; None where it is not known."""
_DEEPEST = 32
_COMPARES: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_COMPUTES: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}


def parsed(condition: str) -> ast.expr | None:
    """None where it is no expression: it may have been cut short."""
    try:
        return ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def says(condition: str, known: Known, *, partly: bool = False) -> bool | None:
    """Whether it holds; None where what it asks for is not known, or not understood. `partly`: as far as it is known,
    `step % 10 == 0 and rank == 0` holds for rank 0."""
    node = parsed(condition)
    value = number(node, known, partly=partly) if node is not None else None
    return None if value is None else bool(value)


def number(node: ast.expr, known: Known, *, partly: bool = False) -> float | None:
    """What an expression of the program computes; None where what it names is not known."""
    try:
        return _value(node, known, partly, 0)
    except (ArithmeticError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr, known: Known, partly: bool, depth: int) -> float | None:
    if depth > _DEEPEST:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int | float) else None
    if isinstance(node, ast.Name | ast.Attribute | ast.Call):
        return known(node)
    if isinstance(node, ast.BoolOp):
        parts = [_value(part, known, partly, depth + 1) for part in node.values]
        decisive = isinstance(node.op, ast.Or)  # one True decides an `or`, one False an `and`
        known_parts = [bool(part) for part in parts if part is not None]
        if partly:
            return (any(known_parts) if decisive else all(known_parts)) if known_parts else None
        return decisive if decisive in known_parts else None if None in parts else not decisive
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, known, partly, depth + 1)
        if inner is None or not isinstance(node.op, ast.Not | ast.USub):
            return None
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, known, partly, depth)
    if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTES:
        left, right = (_value(side, known, partly, depth + 1) for side in (node.left, node.right))
        return None if left is None or right is None else _COMPUTES[type(node.op)](left, right)
    return None


def _compared(node: ast.Compare, known: Known, partly: bool, depth: int) -> bool | None:
    left, compares, other = _value(node.left, known, partly, depth + 1), node.ops[0], node.comparators[0]
    if left is None:
        return None
    if isinstance(compares, ast.In | ast.NotIn):
        several = other.elts if isinstance(other, ast.List | ast.Tuple | ast.Set) else []
        values = [_value(one, known, partly, depth + 1) for one in several]
        return (left in values) is isinstance(compares, ast.In) if values and None not in values else None
    right = _value(other, known, partly, depth + 1)
    return None if right is None or type(compares) not in _COMPARES else _COMPARES[type(compares)](left, right)


def leaves(node: ast.expr, depth: int = 0) -> Iterator[ast.expr | None]:
    """The names, attributes and calls that a condition asks for; None for what is not understood."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Call):
        yield node
    elif isinstance(node, ast.BoolOp | ast.UnaryOp | ast.Compare | ast.BinOp) and depth <= _DEEPEST:
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                yield from leaves(part, depth + 1)
    elif not isinstance(node, ast.Constant):
        yield None


def name_of(node: ast.expr) -> str:
    """The last name of an expression: "rank" of `self.rank`, "get_rank" of `dist.get_rank()`."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
