"""Our own sources, parsed once a process: several tests look through all of them."""

import ast
from functools import cache
from pathlib import Path

from gpudoctor.lint.python_text import walked as walk

__all__ = ("tree", "walk")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
