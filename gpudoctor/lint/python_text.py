"""A Python text -> its tree, and the names in it. Python's own parser reads it, and nothing of it is run."""

import ast
import re
import warnings
from functools import lru_cache

from gpudoctor.lazy import lazy_re

LONGEST_PARSED = 100_000
"""Characters that Python's parser is given as a whole: a quarter of a second (measured); longer texts are cut up."""
LONGEST_LINE = 4_000
"""Longer lines are no hand-written Python, and deep nesting in them has crashed parsers of older Pythons."""

_IMPORTS = lazy_re(r"^[ \t]*(?:from [\w.]+ )?import (?:\([^)]*\)|[^\n]*)", re.MULTILINE)


@lru_cache(maxsize=64)  # several rooms read a text, for each start that names it
def parsed(text: str) -> ast.AST | None:
    if len(text) > LONGEST_PARSED or max(map(len, text.split("\n"))) > LONGEST_LINE:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a foreign text's invalid escapes are no warnings of ours
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def walked(root: ast.AST) -> list[ast.AST]:
    """All nodes in the order of `ast.walk`, but for the contexts of names, in half its time."""
    nodes = [root]
    for node in nodes:  # which grows
        for value in vars(node).values():
            if isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                nodes.append(value)
    return nodes


def without_imports(text: str) -> str:
    """What it uses: what is only imported, as the head of a tutorial has it, does nothing."""
    return _IMPORTS.sub("", text)


def last_name(node: ast.expr) -> str:
    """`C` of `a.b.C` and of `C`; empty of what is no name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
