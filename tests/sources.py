"""Our own sources, parsed once a process: several tests look through all of them."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def walk(of: ast.AST) -> list[ast.AST]:
    """All nodes, as `ast.walk` gives them but for the contexts of names, in half its time."""
    nodes = [of]
    for node in nodes:  # which grows
        for value in vars(node).values():
            if isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                nodes.append(value)
    return nodes
