"""What a program's own command line hands it: its argparse options, and the words of the start that give them."""

import ast
import re
from collections.abc import Sequence
from functools import lru_cache

from gpudoctor.lint.model import LintLaunch
from gpudoctor.lint.python_code import PythonCode, argument, constant

DEEPEST = 4
"""Names in a row that stand for each other."""


def given_number(code: PythonCode, node: ast.expr | None, launches: Sequence[LintLaunch]) -> int | None:
    """A constant, or `args.gpus` as all starts of the text give it; None where that is not told. A start that gives
    nothing has the option's default."""
    value = constant(node)
    if type(value) is int:
        return value
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or not launches:
        return None
    found = {option_of(code, node.attr, launch) for launch in launches}
    return _number(found.pop() if len(found) == 1 else None)


def decided_number(code: PythonCode, node: ast.expr | None, launch: LintLaunch | None) -> int | None:
    """A constant, a name that the program binds to one and to nothing else, or `args.gpus` as the start gives it (of a
    program without a start its default). None where that is not told."""
    for _ in range(DEEPEST):
        if not isinstance(node, ast.Name):
            break
        name = node.id
        stores = [each for each in code.nodes if isinstance(each, ast.Name) and each.id == name]
        bound = [
            each.value
            for each in code.nodes
            if isinstance(each, ast.Assign) and len(each.targets) == 1 and each.targets[0] in stores
        ]
        once = len(bound) == 1 == sum(isinstance(each.ctx, ast.Store) for each in stores)
        if not once or any(isinstance(each, ast.arg) and each.arg == name for each in code.nodes):
            return None
        node = bound[0]
    value = constant(node)
    if type(value) is int:
        return value
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return None
    return _number(option_of(code, node.attr, launch))


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 7 else None


def option_of(code: PythonCode, name: str, launch: LintLaunch | None) -> str | None:
    """The text of an option of the program's parser in this start. None: it is not told, or the program changes it."""
    if re.search(rf"\.{re.escape(name)}\s*(?:[-+*/]|//)?=(?!=)|\bset_defaults\(", code.text):
        return None
    call = _options(code).get(name)
    if call is None:
        return None
    spellings = _spellings(call)
    words = [word.text for word in launch.script_words] if launch is not None else []
    for index, word in enumerate(words):
        if word is None:
            return None  # whatever it holds
        option, equals, value = word.partition("=")
        if option in spellings:
            return value if equals else words[index + 1] if index + 1 < len(words) else None
    default = constant(argument(call, "default"))
    return str(default) if isinstance(default, (int, str)) and not isinstance(default, bool) else None


@lru_cache(maxsize=16)
def _options(code: PythonCode) -> dict[str, ast.Call]:
    """The options of its parsers, by the attribute that each fills."""
    found: dict[str, ast.Call] = {}
    for call in code.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and (named := _spellings(call)):
            found.setdefault(_destination(call, named), call)
    return found


def _spellings(call: ast.Call) -> list[str]:
    return [each for word in call.args if isinstance(each := constant(word), str) and each.startswith("-")]


def _destination(call: ast.Call, spellings: Sequence[str]) -> str:
    """The attribute that argparse makes: dest=, else the first long spelling, else the first."""
    told = constant(argument(call, "dest"))
    if isinstance(told, str):
        return told
    first = next((each for each in spellings if each.startswith("--")), spellings[0])
    return first.lstrip("-").replace("-", "_")
