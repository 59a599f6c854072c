"""Lines to paste, taken apart: which programs they call with which words, and whether gpudoctor takes its own."""

import re
import shlex
from collections.abc import Iterator

import typer

from gpudoctor.cli.group import app

GROUP = typer.main.get_command(app)
BEFORE = re.compile(r"[A-Z_0-9]+=.*|-.*")
HANDS_ON = frozenset(["sudo", "env", "time", "timeout"])
"""Programs whose arguments are another command."""
SIGNS = frozenset("|&;()<>")


def calls(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, without what is set before them."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if word and SIGNS.issuperset(word):
            found.append([])
        else:
            found[-1].append(word)
    for words in found:
        while words and (words[0] in HANDS_ON or BEFORE.fullmatch(words[0])):
            words = words[1:]
        if words:
            yield words


def refused(words: list[str]) -> str:
    """Why gpudoctor does not take these words; empty where it does. Nothing is run."""
    context = GROUP.make_context("gpudoctor", ["--help", *words], resilient_parsing=True)
    if not words or words[0].startswith("-"):
        return ""
    command = GROUP.get_command(context, words[0])  # type: ignore[attr-defined]
    if command is None:
        return f"there is no command {words[0]}"
    try:
        command.make_context(words[0], [word for word in words[1:] if word != "--help"], parent=context)
    except Exception as error:
        return f"{type(error).__name__}: {getattr(error, 'message', error)}"
    return ""
