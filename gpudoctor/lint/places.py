"""Where a stretch of the judged text stands for its reader: in which file, at which line and column."""

import re
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LinkedModule, Span

LINE = lazy_re(r"\bline ([0-9]{1,8})\b")


class Piece(Struct, frozen=True):
    """A file in the text that is judged. `start` and `end` are offsets there."""

    file: str
    start: int
    end: int


class FileText(Struct, frozen=True):
    """A file by itself. `start` and `line`: what its beginning is called among the places of the job."""

    file: str | None
    text: str
    start: int
    line: int
    end: int


class TextPlace(Struct, frozen=True):
    """From 1; columns count characters, and the end is the first place that is no more meant."""

    file: str | None
    line: int
    column: int
    end_line: int
    end_column: int


class Places:
    """Of one text, and of the modules that its programs import. Without pieces, all of the text is what was given."""

    def __init__(self, text: str, pieces: Sequence[Piece] = (), modules: Sequence[LinkedModule] = ()) -> None:
        self.text = text
        self.pieces = tuple(pieces)
        self._modules = modules

    @cached_property
    def _files(self) -> tuple[FileText, ...]:
        """The last first."""
        given = self.pieces or (Piece("", 0, len(self.text)),)
        ends = [*(piece.start for piece in given[1:]), len(self.text)]
        files = [
            FileText(piece.file or None, self.text[piece.start : end], piece.start,
                     self.text.count("\n", 0, piece.start) + 1, piece.end)
            for piece, end in zip(given, ends, strict=True)
        ]  # fmt: skip
        files += [
            FileText(each.file, each.text, each.start, each.line, each.start + len(each.text))
            for each in sorted(self._modules, key=lambda module: module.start)
        ]
        return tuple(reversed(files))

    def piece(self, offset: int) -> Piece | None:
        return next((piece for piece in reversed(self.pieces) if piece.start <= offset), None)

    def file(self, offset: int) -> FileText:
        return next((file for file in self._files if file.start <= offset), self._files[-1])

    def of(self, span: Span) -> TextPlace:
        file = self.file(span.start)
        begin = max(0, span.start - file.start)
        end = max(begin, min(span.end, file.end) - file.start)
        return TextPlace(file.file, *_line_and_column(file.text, begin), *_line_and_column(file.text, end))

    def told(self, text: str, name: str | None = None) -> str:
        """A message with the lines that it names as their files count them. `name`: of a file that need not be
        named."""
        if len(self._files) < 2:
            return text

        def own(match: re.Match[str]) -> str:
            line = int(match[1])
            file = next((file for file in self._files if file.line <= line), self._files[-1])
            return f"{'' if file.file in (None, name) else f'{file.file} '}line {line - file.line + 1}"

        return LINE.sub(own, text)


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
