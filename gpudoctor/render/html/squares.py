"""Many alike things as squares: ranks by where they stand, nodes by their worst finding."""

from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.render.html.markup import Markup, folded, tag

KINDS = 6
"""Colours; beyond them they come again, and the letter tells."""
SIDE, IN_A_ROW, ROWS_SHOWN = 22, 16, 16
LETTERS = 26


class Square(NamedTuple):
    letter: str
    title: str
    """What is said of it where a pointer rests."""
    kind: str
    """Its class: "k0", "bad"."""
    marked: bool = False


def squares(title: str, every: Sequence[Square]) -> Markup:
    """As wide as a phone; more than fit on a screen are folded."""
    across = min(IN_A_ROW, len(every))
    width, height = across * SIDE + 2, -(-len(every) // across) * SIDE + 2
    shown = tag(
        "svg",
        tag("title", title),
        [_drawn(each, number % across, number // across) for number, each in enumerate(every)],
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=title,
    )
    figure = tag("div", tag("figure", shown), class_="pictures")
    return folded(title, figure) if len(every) > ROWS_SHOWN * IN_A_ROW else figure


def _drawn(square: Square, column: int, row: int) -> Markup:
    x, y, side = column * SIDE + 1, row * SIDE + 1, SIDE - 2
    return tag(
        "g",
        tag("title", square.title),
        tag("rect", x=x, y=y, width=side, height=side, rx=4, class_=square.kind),
        tag("rect", x=x, y=y, width=side, height=side, rx=4, class_="suspect") if square.marked else None,
        tag("text", square.letter, x=x + 6, y=y + 14),
    )


def letter(number: int) -> str:
    """A, B, ... Z, A1, ..."""
    return chr(ord("A") + number % LETTERS) + (str(number // LETTERS) if number >= LETTERS else "")


def key(number: int) -> Markup:
    """The letter in its colour, as in the squares."""
    return tag("span", letter(number), class_=f"key k{number % KINDS}")
