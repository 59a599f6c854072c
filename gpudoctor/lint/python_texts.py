"""Python texts of a job as trees, with the places of their nodes: for rules that ask how a call was made."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.trainers import parsed

Function = ast.FunctionDef | ast.AsyncFunctionDef


class PythonText:
    """One text that Python's parser took as a whole. Nothing of it is run."""

    def __init__(self, name: str, text: str, start: int, line: int, tree: ast.AST) -> None:
        self.name = name
        self.text = text
        self.tree = tree
        self._start, self._line = start, line
        self._rows = [0, *(found.end() for found in re.finditer("\n", text))]
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self.calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    def span(self, node: ast.expr) -> Span:
        begin = self._rows[node.lineno - 1] + node.col_offset
        end = self._rows[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        return Span(self._start + begin, self._start + end, self._line + node.lineno - 1)

    def words(self, node: ast.AST) -> str:
        return ast.unparse(node)

    def in_brackets(self, node: ast.expr) -> bool:
        """Whether round brackets stand around it alone: `(x)`, which is no tuple."""
        begin = self._rows[node.lineno - 1] + node.col_offset
        end = self._rows[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        before, behind = self.text[:begin].rstrip(), self.text[end:].lstrip()
        return re.search(r"=\s*\($", before[-40:]) is not None and behind.startswith(")")

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What it stands in, innermost first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def functions(self) -> dict[str, Function]:
        """Those that the module itself defines, once each."""
        found: dict[str, list[Function]] = {}
        for node in getattr(self.tree, "body", []):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.setdefault(node.name, []).append(node)
        return {name: nodes[0] for name, nodes in found.items() if len(nodes) == 1}


def python_texts(job: LintJob) -> Iterator[PythonText]:
    for each in job.sections:
        if (job.kind == "python" and each.kind != "file") or (each.kind == "file" and each.name.endswith(".py")):
            found = _read(each.name, each.text, each.start, each.line)
            if found is not None:
                yield found


@lru_cache(maxsize=64)
def _read(name: str, text: str, start: int, line: int) -> PythonText | None:
    tree = parsed(text) if text.isascii() and "\r" not in text and "\f" not in text else None  # ast counts bytes
    if tree is None:
        return None
    try:
        return PythonText(name, text, start, line, tree)
    except RecursionError:
        return None


def last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument by its name, or by its place among those without one."""
    named = next((each.value for each in call.keywords if each.arg == name), None)
    if named is not None or position is None or position >= len(call.args):
        return named
    before = call.args[: position + 1]
    return None if any(isinstance(each, ast.Starred) for each in before) else call.args[position]


def has_more(call: ast.Call) -> bool:
    """`**settings` or `*words`: arguments that are not to be seen."""
    return any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args)


def string(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
