"""Text on a terminal: paragraphs that wrap without trailing blanks, and commands that never wrap."""

import sys
import textwrap
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gpudoctor.lazy import lazy_re
from gpudoctor.render.words import LEFT_OUT, safe

COLORS = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
NARROWEST = 20
UNKNOWN_WIDTH = 80
"""What rich assumes where nothing tells the width."""
UNKNOWN_HEIGHT = 24
"""Of what is no terminal: a pipe's text has the same lines wherever it is read."""
QUOTED = lazy_re(r"`[^`]{3,100}`")
HELD = "\0"
"""A blank at which no line ends; `safe` leaves none in a text."""


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
    whole, to be copied; so does what stands in backticks, which is mostly a line to paste.
    """
    margin = " " * indent
    lines = textwrap.wrap(
        QUOTED.sub(lambda at: at[0].replace(" ", HELD), safe(text)),
        max(screen.width, NARROWEST),
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines):
        written = Text(line.replace(HELD, " "), style=style)
        if head and number == 0:
            written.stylize(head, 0, len(line.split(" ", 1)[0]))
        screen.print(written, soft_wrap=True)


def show_paragraphs(text: str, screen: Console) -> None:
    """A text of several paragraphs, wrapped for this terminal, not as in its file; lists and commands as they are."""
    for paragraph in text.split("\n\n"):
        screen.print()
        lines = paragraph.splitlines()
        if any(line.startswith((" ", "- ", "* ")) for line in lines):
            for line in lines:
                screen.print(Text(safe(line)), soft_wrap=True)
        else:
            show(" ".join(lines), screen)


_BLANKS = lazy_re(r"\n{3,}")
"""Where a part of a page had nothing to show."""
_FILL = lazy_re(r"[ \t]+(?=(?:\x1b\[[0-9;]*m)*\n)")
"""The blanks with which a table fills its lines."""


def show_page(screen: Console, draw: Callable[[], None], last: Callable[[], None]) -> None:
    """What `draw` prints, then `last`: it is what stays on the screen, and comes first too where it would scroll away
    from who reads from above.
    """
    with screen.capture() as page:
        draw()
    text = _BLANKS.sub("\n\n", _FILL.sub("", page.get())).strip("\n")
    text += "\n" * bool(text)
    if text.count("\n") >= (screen.height if screen.is_terminal else UNKNOWN_HEIGHT):
        last()
        screen.print()
    if text:
        screen.file.write(text)
        screen.print()
    last()


def show_lines_left_out(screen: Console) -> None:
    """Why the fixes of a saved answer have no lines (`check.without_lines`)."""
    show(LEFT_OUT, screen)


def show_table(table: Table, screen: Console, *, gives_way: str) -> None:
    """A table for any width: the column `gives_way` is narrowed first, and no other one is ever cut.

    Half a UUID or PCI address is of no use, so on a narrower terminal the terminal itself wraps the lines.
    """
    unbounded = screen.options.update(max_width=10_000)
    excess = Measurement.get(screen, unbounded, table).maximum - screen.width
    if excess > 0:
        column = next(column for column in table.columns if column.header == gives_way)
        widest = max(len(str(cell)) for cell in (column.header, *column.cells))
        column.max_width = max(widest - excess, min(widest, NARROWEST))
        table.width = Measurement.get(screen, unbounded, table).maximum
    screen.print(table, crop=False)


def show_command(command: str, screen: Console) -> None:
    """A line to paste: it must arrive as one line, so only the terminal itself wraps it."""
    screen.print(Text("    " + safe(command), style="green"), soft_wrap=True)
