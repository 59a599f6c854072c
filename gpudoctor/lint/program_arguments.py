"""What a program's own command line hands it: its argparse options, and the words of the start that give them."""

import argparse
import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.class_parsers import of_class_or_click
from gpudoctor.lint.model import LintLaunch, Word
from gpudoctor.lint.python_code import PythonCode, argument, constant, has_stars

DEEPEST = 4
MOST_WORDS = 500
"""Of one start, and options of one parser: argparse makes a pattern of them."""
"""Names in a row that stand for each other."""


def given_number(code: PythonCode, node: ast.expr | None, launches: Sequence[LintLaunch]) -> int | None:
    """A constant, or `args.gpus` as all starts of the text give it; None where that is not told. A start that gives
    nothing has the option's default."""
    value = constant(node)
    if type(value) is int:
        return value
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or not launches:
        return None
    given = {option_of(code, node.attr, launch) for launch in launches}
    return _number(given.pop() if len(given) == 1 else None)


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
        once = len(bound) == 1 == sum(isinstance(store.ctx, ast.Store) for store in stores)
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


def given_of(call: ast.Call, launch: LintLaunch | None) -> tuple[str | None, bool]:
    """What the words of a start give an option, None where they do not name it; and whether that is known."""
    if launch is None:
        return None, False
    spellings, words = _spellings(call), [word.text for word in launch.script_words]
    for index, word in enumerate(words):
        if word is None:
            return None, False
        option, equals, value = word.partition("=")
        if option in spellings:
            following = words[index + 1] if index + 1 < len(words) else ""
            return value if equals else following, equals != "" or following is not None
    return None, True


def options_given(code: PythonCode, launch: LintLaunch) -> Iterator[tuple[ast.Call, Word, str]]:
    """The options of its parsers that a start names with a value: add_argument, the word and the value."""
    by_spelling = {spelling: call for call in _options(code).values() for spelling in _spellings(call)}
    for index, word in enumerate(launch.script_words):
        option, equals, value = (word.text or "").partition("=")
        following = launch.script_words[index + 1 : index + 2]
        given = value if equals else following[0].text if following else None
        if option in by_spelling and given is not None:
            yield by_spelling[option], word, given


def option_call(code: PythonCode, name: str) -> ast.Call | None:
    """The add_argument that fills an attribute."""
    return _options(code).get(name)


@lru_cache(maxsize=16)
def _options(code: PythonCode) -> dict[str, ast.Call]:
    """The options of its parsers, by the attribute that each fills."""
    calls: dict[str, ast.Call] = {}
    for call in code.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and (named := _spellings(call)):
            calls.setdefault(_destination(call, named), call)
    return calls


def _spellings(call: ast.Call) -> list[str]:
    return [each for word in call.args if isinstance(each := constant(word), str) and each.startswith("-")]


def _destination(call: ast.Call, spellings: Sequence[str]) -> str:
    """The attribute that argparse makes: dest=, else the first long spelling, else the first."""
    dest = constant(argument(call, "dest"))
    if isinstance(dest, str):
        return dest
    first = next((spelling for spelling in spellings if spelling.startswith("--")), spellings[0])
    return first.lstrip("-").replace("-", "_")


def own_parser(code: PythonCode) -> argparse.ArgumentParser | None:
    """The one parser of a program, where all of it is known."""
    return _rebuilt(code)


class _Refused(Exception):
    """argparse's own message."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise _Refused("")


_TYPES: dict[str, type] = {"int": int, "float": float, "str": str}
_ACTIONS = frozenset(("store", "store_const", "store_true", "store_false", "append", "append_const", "count", "extend"))
_UNSURE = lazy_re(
    r"parse_known_args|parse_intermixed|add_subparsers|parents\s*=|fromfile_prefix_chars|prefix_chars"
    r"|conflict_handler|allow_abbrev|sys\.argv|set_defaults|argument_default|configargparse|jsonargparse"
)
"""Parsers of which more must be known than their add_argument."""
_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")


def refused(code: PythonCode, launch: LintLaunch) -> tuple[str, Word | None] | None:
    """What the program's own argparse says to the words of the start, and the word that it is about. None: it takes
    them, or nobody knows."""
    parser = _rebuilt(code) or of_class_or_click(code, _Parser)
    words = [word.text for word in launch.script_words]
    if (
        parser is None
        or len(words) > MOST_WORDS
        or any(word is None or word in ("-h", "--help") or _LEFT_OUT.match(word) for word in words)
    ):
        return None
    given = [word for word in words if word is not None]
    said = ""
    for added in put_in_front(launch):
        try:
            parser.parse_args([*added, *given])
            return None
        except _Refused as error:
            said = said or str(error)
        except Exception:  # a parser that cannot be rebuilt says nothing
            return None
    if said:
        about = [
            script_word
            for script_word in launch.script_words
            if script_word.text and script_word.text.partition("=")[0] in said.split()
        ]
        about = about or [
            script_word for script_word in launch.script_words if script_word.text and script_word.text in said.split()
        ]
        return said[:200], about[0] if about else None
    return None


_LEFT_OUT = lazy_re(r"\.\.\.$|…$|\[[^=]*$|[^=\[]*\]$")
"""`...`, `[OPTIONS]`: more stands there than is written."""
_PARSES = lazy_re(r"add_argument|\b(?:click|fire|typer|tyro|hydra|absl)\b")


def is_parsing(text: str) -> bool:
    """Whether a program has a parser in its own text that refuses what it does not know. One that reads no arguments
    refuses none, nor does one that adds its arguments to a parser that it is handed; transformers' HfArgumentParser
    takes the fields of classes that stand elsewhere, local_rank too."""
    takes_more = re.search(r"parse_known_args|argv|HfArgumentParser", text) is not None
    if "parse_args" not in text and re.search(r"^[ \t]*def \w+\([^)]*\bparser\b", text, re.MULTILINE):
        return False
    return not takes_more and _PARSES.search(text) is not None


def put_in_front(launch: LintLaunch) -> list[list[str]]:
    """What the launcher hands a program before its own words, by release: one that takes any of them is right."""
    if launch.launcher == "deepspeed" and launch.option("no-local-rank", "no-python") is None:
        runner = launch.option("launcher")  # multinode_runner.py: on several nodes pdsh's alone goes by launch.py
        return [["--local_rank=0"]] if runner is None else [["--local_rank=0"], []]
    if launch.launcher == "torch.distributed.launch" and launch.option("use-env") is None:
        return [["--local_rank=0"], ["--local-rank=0"]]
    return [[]]


@lru_cache(maxsize=16)
def _rebuilt(code: PythonCode) -> argparse.ArgumentParser | None:
    """The one parser of the program, with the options that it defines in plain words."""
    made = [call for call in code.calls if code.name(call.func) == "argparse.ArgumentParser"]
    if len(made) != 1 or _UNSURE.search(code.text) or not re.search(r"\.parse_args\(\s*\)", code.text):
        return None
    bound = code.parents.get(made[0])
    if not isinstance(bound, ast.Assign) or not isinstance(bound.targets[0], ast.Name):
        return None
    name = bound.targets[0].id
    parser = _Parser(add_help=False)
    theirs = {(code.scope_of(made[0]), name)}
    for node in code.nodes:  # group = parser.add_argument_group("data")
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            made_by = node.value.func
            of_parser = isinstance(made_by, ast.Attribute) and isinstance(made_by.value, ast.Name)
            if of_parser and isinstance(made_by, ast.Attribute) and made_by.attr in _GROUPS:
                theirs.add((code.scope_of(node), node.targets[0].id))
    adds = [call for call in code.calls if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"]
    for node in code.calls:
        scope, given = code.scope_of(node), [*node.args, *(keyword.value for keyword in node.keywords)]
        if code.name(node.func) == "deepspeed.add_config_arguments":
            for flag in ("--deepspeed", "--deepscale"):
                parser.add_argument(flag, action="store_true")
                parser.add_argument(flag + "_config", type=str)
        elif any(isinstance(arg, ast.Name) and (scope, arg.id) in theirs for arg in given):
            handed = _handed_on(code, node)
            if handed is None:
                return None  # others add to it
            theirs.add(handed)
    for call in adds:
        names = [constant(arg) for arg in call.args]
        mine = (
            isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and (code.scope_of(call), call.func.value.id) in theirs
        )
        if not mine or has_stars(call) or not names or not all(isinstance(name, str) for name in names):
            return None
        keywords = _keywords(call)
        if keywords is None or code.is_conditional(call):
            return None
        try:
            parser.add_argument(*[str(name) for name in names], **keywords)
        except (ValueError, TypeError, argparse.ArgumentError):
            return None
    open_ended = sum("nargs" in {keyword.arg for keyword in call.keywords} for call in adds if not _spellings(call))
    return parser if 0 < len(adds) < MOST_WORDS and open_ended < 4 else None


def _handed_on(code: PythonCode, call: ast.Call) -> tuple[ast.AST, str] | None:
    """The function of the program, and its argument, to which a call of one argument hands its parser."""
    function = code.functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
    alone = len(call.args) == 1 and not call.keywords and not code.is_conditional(call)
    if function is None or not alone or not function.args.args or function.decorator_list:
        return None
    return function, function.args.args[0].arg


def _keywords(call: ast.Call) -> dict[str, Any] | None:
    """What counts for reading words; None where a part of it is not plain."""
    keywords: dict[str, Any] = {}
    for keyword in call.keywords:
        value = constant(keyword.value)
        name = keyword.arg
        if name == "action":
            if value not in _ACTIONS and not (
                isinstance(keyword.value, ast.Attribute) and keyword.value.attr == "BooleanOptionalAction"
            ):
                return None
            keywords[name] = value or argparse.BooleanOptionalAction
        elif name == "type":
            kind = keyword.value.id if isinstance(keyword.value, ast.Name) else ""
            if kind in _TYPES:
                keywords[name] = _TYPES[kind]
        elif name in ("nargs", "required", "dest", "choices"):
            plain = value is not None or (isinstance(keyword.value, ast.Constant) and keyword.value.value is None)
            if not plain and name != "choices":
                return None
            if plain:
                keywords[name] = value
        elif name == "const":
            keywords[name] = value
        elif name == "default":
            keywords[name] = None
    if isinstance(keywords.get("nargs"), int) and keywords["nargs"] > MOST_WORDS:
        return None
    if any(keyword.arg == "type" for keyword in call.keywords) and "type" not in keywords:
        keywords.pop("choices", None)  # a type of its own makes something else of the words
    if keywords.get("action") in ("store_true", "store_false", "count"):
        keywords.pop("type", None)
    if keywords.get("action") in ("store_const", "append_const"):
        keywords.setdefault("const", 1)
    return keywords
