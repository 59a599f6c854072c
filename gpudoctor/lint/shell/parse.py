"""tree-sitter-bash, with what it needs around it: characters instead of bytes, and bounded time."""

import re
import time
from functools import cache
from typing import TYPE_CHECKING

from gpudoctor.lazy import lazy_re

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MENDED = 1 << 16
"""Longer texts are not parsed a second time for a quote."""
SECONDS = 0.4
"""Some endless nonsense (a megabyte of `|`) takes it quadratic time; a script of 10,000 lines takes 0.05 s."""

PROMPT = lazy_re(
    r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.-]+@[\w.-]+[ :][^\s$#]*)?[$%][ \t]+(?=\S)|^[ \t]*!(?=[A-Za-z])", re.MULTILINE
)
ODD = lazy_re(r"[^\t\n\x20-\x7e]")
INNER_VARIABLE = lazy_re(r"(?<=[\w/.:,@=+%~^-])\$(?=\w)", re.ASCII)
"""Inside of a word: tree-sitter-bash ends `$OUT/$NAME/log` behind its second `$`."""
ONLY_ASSIGNED = lazy_re(
    r"^([ \t]*(?:[A-Za-z_]\w*=(?:[^\s\"'`;&|<>#\\()]|\"[^\"\n\\`]*\"|'[^'\n]*'|\$\([^()\n]*\))*[ \t]*){2,20})\n"
    r"(?=\s*(?:[\[{(]|(?:export|declare|local|readonly|typeset|unset|!|while|until|for|if|case|select|function)[ \t]))",
    re.MULTILINE | re.ASCII,
)
"""A line of assignments before a test or `export`, which tree-sitter takes for the arguments of a command."""
ROOT = lazy_re(r"(?<=\[ -[a-z] )/(?= \])")
"""`[ -d / ]`, which tree-sitter takes for a division."""
GAP = lazy_re(r"^([ \t]*(?:export[ \t]+)?\w+=)(<[A-Za-z][^<>\n|;&]{0,90}>)(?=[ \t]*(?:#|$))", re.MULTILINE | re.ASCII)
"""`DATA=<path of it>`, which bash refuses and the instructions' reader fills in: the rest is read as it is meant."""
COMMENT = lazy_re(r"(?<=[ \t])`#[^`\n]*`")
"""A comment between the lines of a command; tree-sitter takes it to run to the end of its line."""
OPENED = lazy_re(r"(?<!<)<<-?[ \t]*(?P<quote>[\"']?)(?P<word>[A-Za-z_][\w.-]*)(?P=quote)[^\n]*\n", re.ASCII)
MOST_OPENED = 48
"""Here-documents of a text of which the ends are looked at."""
SUM_OR_SUBSHELL = lazy_re(r"(?<!\\)\$(?=\(\()([^'\"\n`]*)")
"""`$((`, and what may belong to it."""


class TooTangled(ValueError):
    """It would take too long to parse."""


def parseable(text: str) -> bytes:
    """The text in ASCII, of the same length: what is no ASCII is an ordinary letter of a word to a shell.

    Windows line ends become line ends, a byte order mark and the prompts of a pasted session (`$ torchrun`) blanks.
    """
    if "\r" in text:
        text = text.replace("\\\r\n", "\\\n ").replace("\r", "\n")
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    if "$ " in text or "% " in text or "!" in text:
        text = PROMPT.sub(lambda match: " " * len(match[0]), text)
    text = INNER_VARIABLE.sub("x", text)  # a letter of the word; what stands there is read from the text itself
    text = ONLY_ASSIGNED.sub(r"\1;", text)
    if "=<" in text:
        text = GAP.sub(lambda match: match[1] + "x" * len(match[2]), text)
    if "/ ]" in text:
        text = ROOT.sub("x", text)
    if "`#" in text:
        text = COMMENT.sub(lambda match: " " * len(match[0]), text)
    if "$((" in text:
        text = SUM_OR_SUBSHELL.sub(_plain_subshell, text)
    if "<<" in text:
        text = _with_their_own_ends(text)
    return ODD.sub("\x7f", text).encode("ascii")


def _with_their_own_ends(text: str) -> str:
    """tree-sitter ends a here-document of EOF at a line `EOF_B`: another letter there."""
    opened = OPENED.search(text)
    for _ in range(MOST_OPENED):
        if opened is None:
            break
        word = opened["word"]
        end = re.compile(rf"^[ \t]*{re.escape(word)}$", re.MULTILINE).search(text, opened.end())
        if end is not None:
            longer = re.compile(rf"^([ \t]*{re.escape(word[:-1])}){re.escape(word[-1])}(?=.)", re.MULTILINE)
            inner = longer.sub("\\1\x7f", text[opened.end() : end.start()])
            text = text[: opened.end()] + inner + text[end.start() :]
        opened = OPENED.search(text, opened.end() if end is None else end.end())
    return text


def _plain_subshell(match: re.Match[str]) -> str:
    """`$(((A)) && echo 0)` is a command substitution for bash, and nothing for tree-sitter: letters in its place."""
    rest = match[1]
    open_at: list[int] = []
    second = -1
    for at, sign in enumerate(rest):
        if sign == "(":
            open_at.append(at)
        elif sign == ")":
            if (begun := open_at.pop()) == 1:
                second = at
            if begun == 0:
                # a sum ends with both brackets at once
                inside = rest[1:at] if second == at - 1 else "\x7f" * (at - 1)
                return f"$({inside})" + SUM_OR_SUBSHELL.sub(_plain_subshell, rest[at + 1 :])
    return match[0]


@cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str, seconds: float = SECONDS) -> "Node":
    """The root of the tree; its byte offsets are character offsets. Raises TooTangled."""
    content = parseable(text)
    tree = _parse(content, seconds)
    for _ in range(4 if len(content) < MENDED else 0):
        quote = _unclosed_quote(tree, content) if tree.has_error else None
        if quote is None:
            break
        # Read on as if the quote were a letter: what follows it is worth knowing.
        content = content[:quote] + b"\x7f" + content[quote + 1 :]
        tree = _parse(content, seconds)
    return tree


def _parse(content: bytes, seconds: float) -> "Node":
    parser = _parser()
    parser.reset()
    until = time.monotonic() + seconds
    try:
        tree = parser.parse(
            lambda offset, _point: content[offset : offset + 65536],
            progress_callback=lambda *_: time.monotonic() > until,
        )
    except ValueError:
        parser.reset()
        raise TooTangled from None
    if tree is None:
        raise TooTangled
    return tree.root_node


def _unclosed_quote(root: "Node", content: bytes) -> int | None:
    """Where an error begins with a quote that nothing closes."""
    waiting = [root]
    looked_at = 0
    while waiting and looked_at < 5000:
        node = waiting.pop()
        looked_at += 1
        if not node.has_error:
            continue
        if node.is_error:
            for child in [node, *node.children[:200]]:
                at = child.start_byte
                while at < child.end_byte and content[at : at + 1] in (b" ", b"\t", b"\n"):
                    at += 1
                if content[at : at + 1] in (b'"', b"'", b"`") and (child.is_error or child.child_count == 0):
                    return at
        waiting += reversed(node.children[:500])
    return None
