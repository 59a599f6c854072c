"""What a call of a program is given, for rows of conditions (told_together): its keywords as far as they are decided.

A mapping or a call that is given is looked into: `strategy.config.stage`. What is a name of a library's, or the result
of a call, is that whole name; a list is the tuple of the last names of what stands in it.
"""

import ast

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintLaunch, Word
from gpudoctor.lint.python_code import PythonCode, constant, has_stars
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.python_values import UNDECIDED, PythonValues, Undecided
from gpudoctor.lint.told_options import ToldOption
from gpudoctor.lint.told_together import ToldTogether

DEEPEST = 3
_MANUAL = lazy_re(r"\bself\.automatic_optimization\s*=\s*False\b")
_REENTRANT = lazy_re(r"use_reentrant[\"']?\s*[=:]\s*True\b")


def of_call(
    code: PythonCode, call: ast.Call, launch: LintLaunch | None, positions: tuple[str, ...] = ()
) -> ToldTogether:
    """`positions`: the names of what comes without one."""
    values = PythonValues(code, launch)
    given = ToldTogether({}, not has_stars(call), {}, code)
    for name, value in zip(positions, call.args, strict=False):
        _put(given, code, values, name, value, value, 0)
    for keyword in call.keywords:
        if keyword.arg is not None:
            _put(given, code, values, keyword.arg, keyword.value, keyword, 0)
    given.facts |= {
        "module.manual_optimization": _MANUAL.search(code.text) is not None,
        "reentrant": _REENTRANT.search(code.text) is not None,
        "launcher": launch.launcher if launch is not None else UNDECIDED,
    }
    return given


def flattened(code: PythonCode, node: ast.expr, launch: LintLaunch | None) -> ToldTogether:
    """A mapping by its keys, joined by dots."""
    given = ToldTogether({}, True, {}, code)
    values = PythonValues(code, launch)
    for key, value in (values.mapping(node) or {}).items():
        _put(given, code, values, key, value, value, 0)
    return given


def _put(
    given: ToldTogether, code: PythonCode, values: PythonValues, name: str, value: ast.expr,
    node: ast.expr | ast.keyword, depth: int,
) -> None:  # fmt: skip
    known = values.value(value)
    meant = _meant(code, values, value) if isinstance(known, (Undecided, list)) else known
    text = str(meant) if isinstance(meant, (str, int, float)) else None
    word = Word(raw="", text=text, shown=text or "", span=code.span(node))
    given.options[name] = ToldOption(name, text, word, meant is None or text is not None)
    if not isinstance(meant, Undecided):
        given.facts[name] = meant
    inner = values.behind(value) if isinstance(value, ast.Name) else value
    if depth >= DEEPEST or inner is None:
        return
    pieces = values.mapping(inner)
    if pieces is None and isinstance(inner, ast.Call):
        pieces = {keyword.arg: keyword.value for keyword in inner.keywords if keyword.arg is not None}
    for key, piece in (pieces or {}).items():
        _put(given, code, values, f"{name}.{key}", piece, piece, depth + 1)


def _meant(code: PythonCode, values: PythonValues, node: ast.expr) -> object:
    """The whole name of what is given or made there; of a list the last names of its entries."""
    if isinstance(node, ast.Name):
        bound = values.behind(node)
        if bound is not None:
            return _meant(code, values, bound)
        return code.name(node) or UNDECIDED
    if isinstance(node, (ast.List, ast.Tuple)):
        return tuple(last_name(each.func) if isinstance(each, ast.Call) else constant(each) for each in node.elts)
    if isinstance(node, ast.Call):
        return code.name(node.func) or UNDECIDED
    return (code.name(node) if isinstance(node, ast.Attribute) else "") or UNDECIDED


def start_of(starts: tuple[LintLaunch, ...]) -> LintLaunch | None:
    """The one start of a program; of several none speaks for all."""
    return starts[0] if len(starts) == 1 else None
