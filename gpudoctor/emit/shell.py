"""POSIX shells: `eval "$(gpudoctor env)"` in sh, bash, zsh, dash and ksh."""

import re

from gpudoctor.emit.comments import document, sayable
from gpudoctor.knowledge.suggest.advice import Advice, Suggestion
from gpudoctor.lazy import lazy_re

PLAIN = lazy_re(r"[A-Za-z0-9_/][A-Za-z0-9_./,%+-]*", re.ASCII)
"""Values that no shell looks into. A leading "=" is not among them: zsh takes `=eth0` for a command to look up, and
shlex.quote leaves it bare."""


def shell(advice: Advice) -> str:
    """`export` lines."""
    return document(advice, 'Load it with: eval "$(gpudoctor env)"', export)


def export(suggestion: Suggestion) -> str:
    """One `export` line. Raises `CannotExpress`."""
    return f"export {suggestion.name}={quoted(sayable(suggestion))}"


def quoted(value: str) -> str:
    """A word that a POSIX shell reads back as `value`."""
    if PLAIN.fullmatch(value):
        return value
    return "'" + value.replace("'", "'\"'\"'") + "'"
