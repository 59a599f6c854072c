"""Conditions of a program that no two ranks of one job find differently."""

import ast
import re

_OF_THE_WORLD = re.compile(
    r"(?:\w+\.)*(?:is_available|is_initialized|(?:get_)?world_size|num_processes|(?:is_|use_)?distributed)", re.I
)
"""What ranks of one job find alike: that there is a group of them, and how large it is."""


def asks_for_world(condition: str) -> bool:
    """Whether a condition asks whether there are several ranks, and nothing else: no two of them part there."""
    try:
        tree = ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it may have been cut short
        return False
    return _is_of_world(tree, 0)


def _is_of_world(node: ast.expr, depth: int) -> bool:
    if depth > 32:
        return False
    if isinstance(node, ast.BoolOp):
        return all(_is_of_world(value, depth + 1) for value in node.values)
    if isinstance(node, ast.UnaryOp):
        return _is_of_world(node.operand, depth + 1)
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        return any(not isinstance(side, ast.Constant) for side in sides) and all(
            isinstance(side, ast.Constant) or _is_of_world(side, depth + 1) for side in sides
        )
    if isinstance(node, ast.Call) and not node.args and not node.keywords:
        node = node.func
    return isinstance(node, ast.Name | ast.Attribute) and _OF_THE_WORLD.fullmatch(ast.unparse(node)) is not None
