"""Whether a line to paste is one of ours: of the shape that a template in the source allows, and nothing more.

A template and a line are compared as bash's grammar sees them (tree-sitter): commands, pipes, redirections,
substitutions and the number of words of each must be the same. What is not quoted in the line must hold no more of
what a shell reads than the template does.
"""

import re
from collections import Counter
from functools import cache
from typing import Any

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from gpudoctor.command import SEVERAL
from tests.test_command import PLACEHOLDER, calls, literals

PARSER = Parser(Language(tree_sitter_bash.language()))
WORDS = ("word", "number", "raw_string", "string_content", "ansi_c_string", "variable_name", "file_descriptor")
QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
SPECIAL = "*?[]{}~!$`;&|<>()#\\^\"' \t\n"
MOST = 24
"""Values that the tests give to one placeholder of several."""

Shape = tuple[Any, ...] | str


def shape(line: str) -> Shape:
    """What bash would do with the line, without what its words say."""
    return _shape(PARSER.parse(line.encode("utf-8", "replace")).root_node)


def _shape(node: Node) -> Shape:
    if node.type in WORDS:
        return "word"
    inside = tuple(_shape(child) for child in node.named_children)
    if node.type in ("concatenation", "string", "command_name"):
        # However a word is quoted it is one; what is expanded in it stays visible.
        expanded = tuple(part for part in inside if part != "word")
        return (*expanded, "word") if expanded else "word"
    return (node.type, *inside)


def unquoted(line: str) -> Counter[str]:
    """How often each character that a shell reads stands outside quotes."""
    return Counter(character for character in QUOTED.sub("", line) if character in SPECIAL)


@cache
def templates() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(leading literal, the template with each count of words that it may have) of every command in the source."""
    found = []
    every = list(dict.fromkeys(template for _, call in calls("command") for template in literals(call.args[0])))
    plain = [template for template in every if "{:line}" not in template]
    # A command within a command: each may stand there.
    outer = [template.replace("{:line}", inner) for template in every if template not in plain for inner in plain]
    for template in (*plain, *outer):
        several = any(match[1] in SEVERAL for match in PLACEHOLDER.finditer(template))
        forms = [_filled(template, count) for count in (range(MOST) if several else (1,))]
        found.append((re.split(r"\{:?[a-z]*\}", template)[0].replace("{{", "{").replace("}}", "}"), tuple(forms)))
    return tuple(found)


def _filled(template: str, count: int) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        return " ".join(["x"] * count) if match[1] in SEVERAL else "x"

    return PLACEHOLDER.sub(value, template)


@cache
def _form(filled: str) -> tuple[Shape, Counter[str]]:
    return shape(filled), unquoted(filled)


@cache
def is_ours(line: str) -> bool:
    """Whether some template gives this line: its commands, words and substitutions, and no control character."""
    if not line.isprintable():
        return False
    own = shape(line), unquoted(line)
    return any(own == _form(filled) for leading, forms in templates() if line.startswith(leading) for filled in forms)


__all__ = ["is_ours", "shape", "templates", "unquoted"]
