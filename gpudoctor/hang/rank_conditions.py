"""What a condition of the program asks of the rank, and for whom it holds."""

import ast
import operator
import re

from gpudoctor.knowledge import rank_names
from gpudoctor.snapshot.evidence import Enclosing

RANK_WORDS = re.compile(
    r"rank|is_main|is_master|is_global_zero|master_process|main_process|is_local_main|is_first_worker|is_chief", re.I
)
"""Names by which programs ask which rank they are: torch, Lightning, accelerate, transformers, fairseq, detectron2."""
_RANK = re.compile(r"(?:get_)?(?:\w+_)?rank", re.I)
_IS_ZERO = re.compile(
    r"is_main_process|is_master|is_global_zero|master_process|main_process|is_local_main_process|is_main|is_rank_0"
    r"|is_world_process_zero|is_local_process_zero|is_rank_zero|is_rank0|is_chief|is_first_worker|is_primary",
    re.I,
)


def condition_of(statement: Enclosing) -> str:
    """What a condition asks, in terms of the rank where that could be followed through the program."""
    return statement.asks or statement.text


def is_by_rank(statement: Enclosing) -> bool:
    """Whether a condition asks for the rank: by what its names were given, else by the names themselves."""
    return bool(statement.asks) or RANK_WORDS.search(statement.text) is not None


def admits(statement: Enclosing, rank: int) -> bool | None:
    """Whether a condition lets a rank through; None where what else it asks decides, or where it is not understood.

    Names with "rank" in them count as the rank, those of the kind of `is_main_process` as whether it is 0. The rest of
    the condition is unknown: "step % 10 == 0 and rank == 0" keeps rank 1 out all the same.
    """
    try:
        condition = ast.parse(condition_of(statement).strip(), mode="eval").body
        verdict = _truth(condition, rank, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it may have been cut short
        return None
    return None if verdict is None else verdict is not (statement.kind == "else")


def asks_for(condition: str, rank: int) -> bool | None:
    """Whether a condition lets a rank through, as far as it asks for the rank: `step % 10 == 0 and (full or rank == 0)`
    lets in rank 0. None where it does not ask, or is not understood. "not (...)" stands for the other branch."""
    try:
        return _part_about(ast.parse(condition.strip(), mode="eval").body, rank, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _part_about(node: ast.expr, rank: int, depth: int) -> bool | None:
    if depth > 32:
        return None
    if isinstance(node, ast.BoolOp):
        parts = [part for value in node.values if (part := _part_about(value, rank, depth + 1)) is not None]
        return (any(parts) if isinstance(node.op, ast.Or) else all(parts)) if parts else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _part_about(node.operand, rank, depth + 1)
        return None if inner is None else not inner
    return _truth(node, rank, depth)


def _truth(node: ast.expr, rank: int, depth: int) -> bool | None:
    if depth > 32:
        return None
    if isinstance(node, ast.BoolOp):
        parts = [_truth(value, rank, depth + 1) for value in node.values]
        decisive = isinstance(node.op, ast.Or)  # one True decides an `or`, one False an `and`
        return decisive if decisive in parts else None if None in parts else not decisive
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand, rank, depth + 1)
        return None if inner is None else not inner
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right, compares = node.left, node.comparators[0], node.ops[0]
        if isinstance(left, ast.Constant) and type(compares) in (ast.Eq, ast.NotEq):
            left, right = right, left
        number = None if isinstance(left, ast.Constant) else _number(left, rank, depth + 1)
        return None if number is None else _compared(number, compares, right)
    name = name_of(node)
    if _IS_ZERO.fullmatch(name):
        return rank == 0
    number = None if isinstance(node, ast.Constant) else _number(node, rank, depth + 1)
    return None if number is None else number != 0


def _compared(rank: int, compares: ast.cmpop, other: ast.expr) -> bool | None:
    """A rank against what a condition compares it with."""
    try:
        value: object = ast.literal_eval(other)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if isinstance(compares, ast.In | ast.NotIn) and isinstance(value, list | tuple | set):
        return (rank in value) is isinstance(compares, ast.In)
    if not isinstance(value, int):
        return None
    return {
        ast.Eq: rank == value,
        ast.NotEq: rank != value,
        ast.Gt: rank > value,
        ast.Lt: rank < value,
        ast.GtE: rank >= value,
        ast.LtE: rank <= value,
    }.get(type(compares))


def name_of(node: ast.expr) -> str:
    """The last name of an expression: "rank" of `self.rank`, "get_rank" of `dist.get_rank()`."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_rank(node: ast.expr) -> bool:
    """Not its number in a group: which ranks have it there, a condition does not tell."""
    name = name_of(node)
    asks_group = isinstance(node, ast.Call) and bool(node.args or node.keywords)
    return _RANK.fullmatch(name) is not None and not asks_group and rank_names.IN_GROUP.fullmatch(name) is None


def _number(node: ast.expr, rank: int, depth: int) -> int | None:
    """What an expression of the rank and of numbers is on a rank: `rank % 2`, `rank // 8`."""
    if depth > 32:
        return None
    if _is_rank(node):
        return rank
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in _COMPUTES:
        return None
    left, right = _number(node.left, rank, depth + 1), _number(node.right, rank, depth + 1)
    if left is None or right is None or (right <= 0 and isinstance(node.op, ast.Mod | ast.FloorDiv)):
        return None
    return int(_COMPUTES[type(node.op)](left, right))


_COMPUTES = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}
