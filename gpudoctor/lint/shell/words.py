"""Words as bash delimits them, for `syntax`: quotes, expansions, arrays, here-documents; and what is left open."""

import re
from typing import NamedTuple

from gpudoctor.lazy import lazy_re

PLAIN = lazy_re(r"[^\s\\'\"`$;&|<>()#!*?+@]+")
TRAILING = lazy_re(r"\\[ \t]+(?:#[^\n]*)?\r?(?=\n|\Z)")
IN_QUOTES = lazy_re(r'[^\\"`$]+')
ARRAY = lazy_re(r"[A-Za-z_]\w*(?:\[[^]\n]*\])?\+?=$", re.ASCII)


class RefusedShell(NamedTuple):
    """What bash refuses. `kind`: quote, bracket, here-document, compound (never closed), unexpected."""

    kind: str
    at: int
    """Where it began, or the word that stands where none may."""
    what: str
    wanted: str = ""
    """What would close it."""


class StopReading(Exception):
    def __init__(self, refused: RefusedShell) -> None:
        self.refused = refused


class ShellWords:
    """Reads words; `commands` reads what stands in `$(...)`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.size = len(text)
        self.waiting: list[tuple[str, bool, int]] = []
        self.document: RefusedShell | None = None
        self.long_quotes: list[int] = []
        self.over_lines: list[tuple[int, int]] = []
        """Quotes and arrays that run over lines: no backslash is needed in them."""
        self.trailing: list[int] = []
        """Backslashes with a blank behind them at the end of a line."""
        self.dashed: list[int] = []
        """Commands whose name is an option: the line before ended too early."""
        self.options_in: dict[str, bool] = {}
        """Variables, and whether their values are options, as far as they were looked at."""
        self.depth = 0

    def stop(self, kind: str, at: int, what: str, wanted: str = "") -> StopReading:
        return StopReading(RefusedShell(kind, at, what, wanted))

    # --- between words

    def blanks(self) -> None:
        """Blanks, continued lines, a comment."""
        while self.at < self.size:
            sign = self.text[self.at]
            if sign in " \t\r":
                self.at += 1
            elif self.text.startswith(("\\\n", "\\\r\n"), self.at):
                self.at = self.text.index("\n", self.at) + 1
            elif sign == "#":
                end = self.text.find("\n", self.at)
                self.at = self.size if end < 0 else end
            else:
                return

    def lines(self) -> None:
        """Blanks, comments and ends of lines."""
        while True:
            self.blanks()
            if self.at < self.size and self.text[self.at] == "\n":
                self.at += 1
                self.end_of_line()
            else:
                return

    def end_of_line(self) -> None:
        """The bodies of the here-documents of the line that ends."""
        waiting, self.waiting = self.waiting, []
        for wanted, tabs, began in waiting:
            while True:
                if self.at >= self.size:
                    self.document = self.document or RefusedShell("here-document", began, "<<", wanted)
                    return
                end = self.text.find("\n", self.at)
                end = self.size if end < 0 else end
                line = self.text[self.at : end].rstrip("\r")
                self.at = min(end + 1, self.size)
                if (line.lstrip("\t") if tabs else line) == wanted:
                    break

    def commands(self, closing: tuple[str, ...], opened: tuple[int, str] | None = None, empty: bool = False) -> str:
        raise NotImplementedError

    def arithmetic(self, start: int) -> bool:
        raise NotImplementedError

    # --- words

    def word(self, pattern: bool = False) -> None:
        """One word; `pattern`: behind `=~` in `[[ ]]` brackets belong to it."""
        text, start = self.text, self.at
        while self.at < self.size:
            plain = PLAIN.match(text, self.at)
            if plain is not None:
                self.at = plain.end()
                continue
            sign = text[self.at]
            if sign == "#" or sign in "!*?+@":
                self.at += 1
                if sign != "#" and self.at < self.size and text[self.at] == "(":
                    self.brackets(self.at)  # a pattern of extglob
            elif sign == "(" and (ARRAY.search(text[start : self.at][-200:]) or pattern):
                self.array() if not pattern else self.brackets(self.at)
            elif sign in "<>" and self.at == start and text.startswith("(", self.at + 1):
                opened = self.at
                self.at += 2
                self.commands((")",), (opened, sign + "("), empty=True)
            elif sign in " \t\r\n;&|<>()":
                return
            else:
                self.piece()

    def array(self) -> None:
        """The elements of `NAME=(`."""
        start = self.at
        self.at += 1
        while True:
            self.lines()
            if self.at >= self.size:
                raise self.stop("bracket", start, "(", ")")
            if self.text[self.at] == ")":
                self.at += 1
                self.over_lines.append((start, self.at))
                return
            before = self.at
            if self.text[self.at] in ";&|<>(" and not self.text.startswith(("<(", ">("), self.at):
                raise self.stop("unexpected", self.at, self.text[self.at])
            self.word()
            if self.at == before:
                self.at += 1

    def brackets(self, start: int) -> None:
        """A balanced `(...)` that is part of a word."""
        self.at = start + 1
        while self.at < self.size:
            sign = self.text[self.at]
            if sign == ")":
                self.at += 1
                return
            if sign == "(":
                self.brackets(self.at)
            elif sign in "\\'\"`$":
                self.piece()
            else:
                self.at += 1
        raise self.stop("bracket", start, "(", ")")

    def piece(self, quoted: bool = False) -> None:
        """An escape, a quote, an expansion."""
        text, start = self.text, self.at
        sign = text[start]
        if sign == "\\":
            if TRAILING.match(text, start) and (not quoted or self._continued(start)):
                self.trailing.append(start)
            self.at += 2
        elif sign == "'":
            end = text.find("'", start + 1)
            if end < 0:
                raise self.stop("quote", start, "'", "'")
            if "\n" in text[start:end]:
                self.long_quotes.append(start)
                self.over_lines.append((start, end + 1))
                self.trailing += [
                    match.start() for match in TRAILING.finditer(text, start, end) if self._continued(match.start())
                ]
            self.at = end + 1
        elif sign == '"':
            self.at += 1
            self.double(start)
        elif sign == "`":
            self.at += 1
            while self.at < self.size and text[self.at] != "`":
                self.at += 2 if text[self.at] == "\\" else 1
            if self.at >= self.size:
                raise self.stop("quote", start, "`", "`")
            self.at += 1
        elif text.startswith("$((", start) and self._arithmetic_expansion(start):
            pass
        elif text.startswith("$(", start):
            self.at += 2
            self.commands((")",), (start, "$("), empty=True)
        elif text.startswith("${", start):
            self.parameter(start)
        elif text.startswith("$'", start) and not quoted:
            self.at += 2
            while self.at < self.size and text[self.at] != "'":
                self.at += 2 if text[self.at] == "\\" else 1
            if self.at >= self.size:
                raise self.stop("quote", start, "'", "'")
            self.at += 1
        else:
            self.at += 1

    def _continued(self, at: int) -> bool:
        """Whether the line before or after ends with a backslash: then this one was meant to go on too."""
        lines = self.text[max(0, at - 2000) : at].split("\n"), self.text[at : at + 2000].split("\n")
        return any(
            len(of) > 1 and of[which].rstrip("\r").endswith("\\") for of, which in zip(lines, (-2, 1), strict=True)
        )

    def _arithmetic_expansion(self, start: int) -> bool:
        before = self.at
        self.at = start + 1
        if self.arithmetic(start + 1):
            return True
        self.at = before
        return False

    def double(self, start: int) -> None:
        """Behind the `"` at `start`, up to the one that closes."""
        while self.at < self.size:
            plain = IN_QUOTES.match(self.text, self.at)
            if plain is not None:
                self.at = plain.end()
                continue
            if self.text[self.at] == '"':
                self.at += 1
                if "\n" in self.text[start : self.at]:
                    self.long_quotes.append(start)
                    self.over_lines.append((start, self.at))
                return
            self.piece(quoted=True)
        raise self.stop("quote", start, '"', '"')

    def parameter(self, start: int) -> None:
        """`${...}`."""
        self.at = start + 2
        while self.at < self.size:
            sign = self.text[self.at]
            if sign == "}":
                self.at += 1
                return
            if sign == "'" and "\n" in self.text[self.at : self.text.find("'", self.at + 1)]:
                self.at += 1
            elif sign in "\\'\"`$":
                self.piece()
            else:
                self.at += 1
        raise self.stop("bracket", start, "${", "}")
