"""Where a stretch of the judged text stands for its reader: in which file, at which line and column."""

import re
from collections.abc import Sequence

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Span
from gpudoctor.lint.shell.source import ShellLines

LINE = lazy_re(r"\bline ([0-9]{1,7})\b")


class Piece(Struct, frozen=True):
    """A file in the text that is judged. `start` and `end` are offsets there."""

    file: str
    start: int
    end: int


class TextPlace(Struct, frozen=True):
    """From 1; columns count characters, and the end is the first place that is no more meant."""

    file: str | None
    line: int
    column: int
    end_line: int
    end_column: int


class Places:
    """Of one text. Without pieces, all of it is what was given."""

    def __init__(self, text: str, pieces: Sequence[Piece] = ()) -> None:
        self.text = text
        self.pieces = tuple(pieces)
        self._lines = ShellLines(text)

    def piece(self, offset: int) -> Piece | None:
        return next((piece for piece in reversed(self.pieces) if piece.start <= offset), None)

    def of(self, span: Span) -> TextPlace:
        piece = self.piece(span.start)
        before = self._lines.at(piece.start) - 1 if piece is not None else 0
        end = max(span.start, min(span.end, piece.end) if piece is not None else span.end)
        return TextPlace(
            piece.file if piece is not None else None,
            self._lines.at(span.start) - before,
            self._column(span.start),
            self._lines.at(end) - before,
            self._column(end),
        )

    def told(self, text: str, file: str | None = None) -> str:
        """A message with the lines that it names as their files count them. `file`: which need not be named."""
        if len(self.pieces) < 2:
            return text

        def own(match: re.Match[str]) -> str:
            line = int(match[1])
            starts = ((piece, self._lines.at(piece.start)) for piece in reversed(self.pieces))
            piece, first = next(((piece, first) for piece, first in starts if first <= line), (self.pieces[0], 1))
            name = "" if piece.file == file else f"{piece.file} "
            return f"{name}line {line - first + 1}"

        return LINE.sub(own, text)

    def _column(self, offset: int) -> int:
        return offset - self.text.rfind("\n", 0, offset)
