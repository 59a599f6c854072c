"""Parsers that are written as a class (Tap) or by decorators (click), as one of argparse that reads words alike."""

import argparse
import ast
from functools import lru_cache
from typing import Any

from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, constant, has_stars

_PLAIN: dict[str, type] = {"int": int, "float": float, "INT": int, "FLOAT": float}


@lru_cache(maxsize=16)
def of_class_or_click(code: PythonCode, made_of: type[argparse.ArgumentParser]) -> argparse.ArgumentParser | None:
    """None where it has neither, or more of them than one."""
    taps = [node for node in code.nodes if isinstance(node, ast.ClassDef) and _is_tap(code, node)]
    commands = [node for node in code.nodes if isinstance(node, FUNCTIONS) and _decorators(code, node, "command")]
    if len(taps) + len(commands) != 1 or "known_only" in code.text or "ignore_unknown_options" in code.text:
        return None
    parser = made_of(add_help=False, allow_abbrev=not commands)
    try:
        known = _fill_by_fields(parser, taps[0]) if taps else _fill_by_decorators(code, parser, commands[0])
    except (ValueError, TypeError, argparse.ArgumentError):
        return None
    return parser if known else None


def _is_tap(code: PythonCode, node: ast.ClassDef) -> bool:
    return [code.name(base) for base in node.bases] in (["tap.Tap"], ["tap.TypedArgumentParser"])


def _fill_by_fields(parser: argparse.ArgumentParser, tap: ast.ClassDef) -> bool:
    if any(isinstance(line, FUNCTIONS) and line.name in ("configure", "__init__") for line in tap.body):
        return False
    for line in tap.body:
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        kind = ast.unparse(line.annotation)
        if kind == "bool":
            parser.add_argument(f"--{line.target.id}", action="store_true", required=line.value is None)
            continue
        several = kind.lower().startswith(("list[", "tuple[", "set[", "sequence["))
        parser.add_argument(
            f"--{line.target.id}",
            type=_PLAIN.get(kind, str),
            required=line.value is None and not kind.startswith("Optional") and "None" not in kind,
            nargs="*" if several else None,
        )
    return True


def _decorators(code: PythonCode, function: ast.AST, last: str) -> list[ast.expr]:
    made = getattr(function, "decorator_list", ())
    called = [(each.func if isinstance(each, ast.Call) else each, each) for each in made]
    return [each for name, each in called if code.name(name) == f"click.{last}"]


def _fill_by_decorators(code: PythonCode, parser: argparse.ArgumentParser, function: ast.AST) -> bool:
    """Each decorator is click's own; another one may add options."""
    options, arguments = _decorators(code, function, "option"), _decorators(code, function, "argument")
    if len(options) + len(arguments) + 1 != len(getattr(function, "decorator_list", ())):
        return False
    for call in options:
        names = [constant(each) for each in call.args] if isinstance(call, ast.Call) else []
        if not isinstance(call, ast.Call) or has_stars(call) or not all(isinstance(name, str) for name in names):
            return False
        spelled = [part for name in names for part in str(name).split("/") if part.startswith("-")]
        flag = constant(argument(call, "is_flag")) is True or any("/" in str(name) for name in names)
        given: dict[str, Any] = {"required": constant(argument(call, "required")) is True}
        if flag or constant(argument(call, "count")) is True:
            given["action"] = "count" if not flag else "store_true"
        else:
            given["type"] = _kind(call)
            choices = argument(call, "type")
            if isinstance(choices, ast.Call) and code.name(choices.func) == "click.Choice":
                listed = constant(choices.args[0]) if len(choices.args) == 1 and not choices.keywords else None
                given |= {"choices": list(listed)} if isinstance(listed, (list, tuple)) else {}
            number = constant(argument(call, "nargs"))
            given |= {"nargs": number} if type(number) is int and 1 < number < 9 else {}
        parser.add_argument(*spelled, dest=spelled[-1].lstrip("-").replace("-", "_"), **given)
    for call in arguments:
        if not isinstance(call, ast.Call) or not call.args or not isinstance(constant(call.args[0]), str):
            return False
        many, needed = constant(argument(call, "nargs")), argument(call, "required")
        optional = argument(call, "default") is not None or constant(needed) is False
        parser.add_argument(str(constant(call.args[0])), nargs="*" if many == -1 else "?" if optional else None)
    return True


def _kind(call: ast.Call) -> type:
    """click takes a number where its type or its default is one."""
    kind = argument(call, "type")
    if kind is None:
        default = constant(argument(call, "default"))
        return type(default) if type(default) in (int, float) else str
    return _PLAIN.get(ast.unparse(kind).rpartition(".")[2], str)
