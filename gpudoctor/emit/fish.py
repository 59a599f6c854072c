"""The fish shell: `gpudoctor env --format fish | source`."""

from gpudoctor.emit.comments import document, sayable
from gpudoctor.knowledge.suggest.advice import Advice, Suggestion


def fish(advice: Advice) -> str:
    """`set -gx` lines."""
    return document(advice, "Load it with: gpudoctor env --format fish | source", set_line)


def set_line(suggestion: Suggestion) -> str:
    """One `set -gx` line. Raises `CannotExpress`. Within single quotes fish knows two escapes only: \\\\ and \\'."""
    escaped = sayable(suggestion).replace("\\", "\\\\").replace("'", "\\'")
    return f"set -gx {suggestion.name} '{escaped}'"
