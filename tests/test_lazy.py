"""Patterns are compiled when they are asked, and all of them are patterns."""

import ast
import copy
import gc
import importlib
import pkgutil
import re
from pathlib import Path

import gpudoctor
import gpudoctor_checks
from gpudoctor import lazy
from gpudoctor.lazy import lazy_re
from tests import sources

ROOT = Path(__file__).parent.parent
BY_THEMSELVES = ("gpudoctor/workers/", "gpudoctor/run/site/", "gpudoctor/run/relay.py", "gpudoctor/run/rank_log.py")
"""They import nothing of ours."""
AT_ONCE = {"gpudoctor/named.py", "gpudoctor/embedded.py", *BY_THEMSELVES[2:], "gpudoctor/armed.py"}
"""Of a few patterns, each of which every start asks; and what imports nothing of ours."""


def compiled_as_imported(module: ast.AST) -> list[int]:
    """Lines."""
    lines = []
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            lines.append(node.lineno)
        lines += compiled_as_imported(node)
    return lines


def test_no_module_compiles_a_pattern_as_it_is_imported() -> None:
    shipped = [path for room in ("gpudoctor", "checks") for path in sorted((ROOT / room).rglob("*.py"))]
    names = {str(path.relative_to(ROOT)): path for path in shipped}
    assert not {
        name: lines
        for name, path in names.items()
        if not name.startswith(BY_THEMSELVES) and name not in AT_ONCE
        if (lines := compiled_as_imported(sources.tree(path)))
    }


def test_every_one_is_a_pattern() -> None:
    for package in (gpudoctor, gpudoctor_checks):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(("gpudoctor.workers", "gpudoctor.run.site")) and not module.name.endswith(
                "__main__"
            ):
                importlib.import_module(module.name)
    gc.unfreeze()  # what was there when tests were collected (conftest.py)
    there = [each for each in gc.get_objects() if type(each) is lazy._Lazy]
    gc.freeze()
    assert len(there) > 900
    for each in there:
        each.search(b"" if isinstance(each.pattern, bytes) else "")


def test_it_answers_as_the_pattern_does() -> None:
    pattern = lazy_re(r"(?P<key>\w+)=(\d+)", re.IGNORECASE)
    assert pattern.pattern == r"(?P<key>\w+)=(\d+)"
    assert "search" not in vars(pattern)
    assert pattern.sub("x", "a=1 b=2") == "x x"
    assert (pattern.groups, pattern.groupindex["key"], pattern.flags) == (2, 1, re.compile("(?i)").flags)
    for same in (copy.copy(pattern), copy.deepcopy(pattern)):
        assert [match["key"] for match in same.finditer("a=1 b=2")] == ["a", "b"]
    assert lazy_re(rb"\d").findall(b"a1b2") == [b"1", b"2"]
