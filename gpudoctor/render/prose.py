"""Text on a terminal: paragraphs that wrap without trailing blanks, and commands that never wrap."""

import sys
import textwrap
from typing import TextIO

from rich.console import Console
from rich.text import Text

from gpudoctor.render.words import safe

NARROWEST = 20
UNKNOWN_WIDTH = 80
"""What rich assumes where nothing tells the width."""


def console(*, no_color: bool = False, file: TextIO | None = None, width: int | None = None) -> Console:
    """A console on standard output; rich itself obeys NO_COLOR, TERM=dumb and pipes."""
    screen = Console(
        file=file or sys.stdout, width=width, no_color=no_color or None, highlight=False, emoji=False, markup=False
    )
    if screen.width < 1:  # COLUMNS=0, from a terminal that tells no size: rich would print nothing at all
        screen.width = UNKNOWN_WIDTH
    return screen


def show(text: str, screen: Console, *, style: str = "", indent: int = 0, head: str = "") -> None:
    """A paragraph. The first word takes the style `head` where that is given.

    rich would fill every line with blanks, which get pasted along; a word that does not fit (a UUID, a path) stays
    whole, to be copied.
    """
    margin = " " * indent
    lines = textwrap.wrap(
        safe(text),
        max(screen.width, NARROWEST),
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines):
        written = Text(line, style=style)
        if head and number == 0:
            written.stylize(head, 0, len(line.split(" ", 1)[0]))
        screen.print(written, soft_wrap=True)


def show_command(command: str, screen: Console) -> None:
    """A line to paste: it must arrive as one line, so only the terminal itself wraps it."""
    screen.print(Text("    " + safe(command), style="green"), soft_wrap=True)
