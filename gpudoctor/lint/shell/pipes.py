"""Pipes in which a start of training stands, and what depends on their status."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.shell.parse import TooTangled, parse

if TYPE_CHECKING:
    from tree_sitter import Node

_ENDS_AT_FAILURE = lazy_re(r"^[ \t]*set[ \t]+(?:-o[ \t]+)?(?:-\w*e\w*|errexit)|\A#!.*\s-\w*e\w*$", re.MULTILINE)
_ASKS = lazy_re(r"\$\?|\$\{\?\}")
_SAYS = ("echo", "printf", "date", "exit", "wait", "true", ":", "rm", "cat", "ls")
"""What may follow a training that has failed as well as one that has not."""
_WORKS = lazy_re(
    r"(?:[A-Za-z_]\w*=\S*[ \t]+)*(?:python[\d.]*|torchrun|accelerate|deepspeed|uv[ \t]+run|srun|mpirun|sbatch)[ \t]",
    re.ASCII,
)
"""What takes what the training has made."""

_SEARCH = lazy_re(r"(?:[efz]|rip)?grep\b[^\n]*?(?:\s-\w*q|\s--(?:quiet|silent)|>[ \t]*/dev/null)")
"""It prints nothing: what is asked is whether the line is there."""


class AskedPipe(Struct, frozen=True):
    """`start` and `end`: where the last program of it stands, as offsets in the text."""

    start: int
    end: int
    last: str
    """The program whose status it has."""
    asked: str
    """What depends on that."""


def asked_pipes(text: str, starts: list[int]) -> Iterator[AskedPipe]:
    """Of those that a start stands in, and not at their end."""
    for pipe in _pipes(text, starts):
        asked = _asked(pipe, text)
        last = pipe.named_children[-1]
        if asked:
            words = text[last.start_byte : last.end_byte].split()
            yield AskedPipe(last.start_byte, last.end_byte, words[0][:30], asked)


def _pipes(text: str, starts: list[int]) -> Iterator["Node"]:
    try:
        waiting = [parse(text)] if starts else []
    except TooTangled:
        return
    while waiting:
        node = waiting.pop()
        mine = [at for at in starts if node.start_byte <= at < node.end_byte]
        if not mine:
            continue
        if node.type == "pipeline" and len(node.named_children) > 1:
            last = node.named_children[-1]
            if any(at < last.start_byte for at in mine) and last.type in ("command", "redirected_statement"):
                yield node
                continue
        waiting += node.children


def _asked(pipe: "Node", text: str) -> str:
    """What depends on its status; empty: nothing does."""
    node = pipe
    above = node.parent
    while above is not None and above.type in ("redirected_statement", "negated_command"):
        node, above = above, above.parent
    if above is None:
        return ""
    if above.type in ("if_statement", "elif_clause", "while_statement") and _is_condition(above, node):
        is_search = _SEARCH.match(text[pipe.named_children[-1].start_byte : node.end_byte]) is not None
        return "a condition asks for it" if not is_search else ""
    if above.type == "list" and above.children[0] == node:
        what = text[above.children[-1].start_byte : above.children[-1].end_byte]
        return "&& and || ask for it" if what.split()[0] not in _SAYS else ""
    following = node.next_named_sibling
    while following is not None and following.type == "comment":
        following = following.next_named_sibling
    if following is not None and _ASKS.search(text[following.start_byte : following.end_byte].partition("\n")[0]):
        return "the next command asks for it"
    before = text[: pipe.start_byte]
    if not _ENDS_AT_FAILURE.search(before) or "set +e" in before:
        return ""
    while following is not None:
        if following.type != "comment" and _WORKS.match(text, following.start_byte):
            return "what follows is to be done only after a good end (set -e)"
        following = following.next_named_sibling
    return ""


def _is_condition(above: "Node", node: "Node") -> bool:
    body = next((child for child in above.children if child.type in ("then", "do_group")), None)
    return body is None or node.end_byte <= body.start_byte
