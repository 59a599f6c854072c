"""The lines of one_line.txt, and how `explain` classes them."""

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpudoctor.explain.explain import STANDARD_INPUT, explain
from gpudoctor.fault_classes import CLASSES

FILE = Path(__file__).resolve().parent / "one_line.txt"


class OneLine(NamedTuple):
    classes: tuple[str, ...]
    """The right ones; none: the line tells no fault."""
    message: str
    answered: str
    """The class of the first cause; empty: nothing is said."""

    @property
    def half(self) -> str:
        return half(self.message)

    @property
    def right(self) -> bool:
        return self.answered in self.classes if self.classes else not self.answered

    @property
    def wrong(self) -> bool:
        """Another class is said, and not only nothing."""
        return bool(self.answered) and not self.right


def half(message: str) -> str:
    return "tune" if hashlib.sha256(message.encode()).digest()[0] % 2 else "keep"


def labelled() -> Iterator[tuple[tuple[str, ...], str]]:
    """The right classes of each line, and the line."""
    for line in FILE.read_text().splitlines():
        if not line.startswith("#"):
            labels, _, message = line.partition(" | ")
            classes = tuple(label for label in labels.split("/") if label != "none")
            assert {*classes} <= {*CLASSES}, line
            yield classes, message


def one_lines() -> Iterator[OneLine]:
    for classes, message in labelled():
        causes = explain([STANDARD_INPUT], stdin=io.BytesIO(message.encode())).causes
        yield OneLine(classes, message, causes[0].kind if causes else "")
