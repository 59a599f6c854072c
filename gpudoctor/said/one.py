"""`Meaning`: what an id of a command's own means."""

from collections.abc import Callable
from typing import NamedTuple

from gpudoctor.check import Fix
from gpudoctor.command import Command


class Meaning(NamedTuple):
    by: str
    """The command that says it."""
    seen: str
    meaning: str
    fix: Fix


def said_by(by: str) -> Callable[..., Meaning]:
    """Makes rows of it."""

    def said(seen: str, meaning: str, fix: str, *lines: Command) -> Meaning:
        return Meaning(by, seen, meaning, Fix(fix, lines))

    return said
