"""A shell text and where its characters stand in the text that the user gave.

The inner text of `bash -c "..."` is put together from pieces: each character remembers the stretch that it comes from.
What the outer shell put in and nobody knows is one character of a private plane, which stands for a `Run`.
"""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Expansion, Span

PLACEHOLDER = 0xF0000
FILLED_LATER = lazy_re("[\U000f0000-\U000ffffd]")
"""What stands where a text leaves something to others: a template's `{{ nodes }}`, what an outer shell puts in."""
TEMPLATE = lazy_re(r"\$?\{\{[^{}\n]{1,500}\}\}")
MOST_TEMPLATES = 10_000


class CommandRun(NamedTuple):
    """A piece of what a word gives. `start` and `end` are offsets in the whole text, -1 where it stands nowhere."""

    text: str
    """What the program gets; as written where it is not known."""
    start: int = -1
    end: int = -1
    known: bool = True
    quoted: bool = False
    splits: bool = False
    """It comes from an expansion outside quotes: blanks in it end the word."""
    expansions: tuple[Expansion, ...] = ()
    dollar: bool = False
    """It has a `$` that no shell expanded."""
    breaks: bool = False
    """The next word of an array begins here."""

    @property
    def exact(self) -> bool:
        """Character for character as it stands in the text."""
        return self.start >= 0 and self.end - self.start == len(self.text)


class ShellLines:
    """Offsets to line numbers."""

    def __init__(self, text: str) -> None:
        self.followed = 0
        """Substitutions whose output was looked for: there is an end to that in a text of nothing else."""
        self._starts = [0]
        at = text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = text.find("\n", at + 1)

    def at(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def span(self, start: int, end: int, exact: bool = True) -> Span:
        return Span(start, max(start, end), self.at(start), exact)


class ShellSource:
    """A text to parse. `base`: where it begins in the whole, when it stands there as it is."""

    def __init__(self, text: str, lines: ShellLines, base: int = 0) -> None:
        self.text = text
        self.lines = lines
        self.base = base
        self.places: list[tuple[int, int]] | None = None
        self.placeholders: dict[str, CommandRun] = {}

    @classmethod
    def of_text(cls, text: str, lines: ShellLines, base: int = 0) -> "ShellSource":
        """A text that stands in the whole as it is. What a service puts in for `${{ ... }}` or `{{...}}` before a
        shell reads it (GitHub's workflows, Azure ML's jobs, Argo's) is as unknown as what an outer shell puts in."""
        if "{{" not in text:
            return cls(text, lines, base)
        runs, at = [], 0
        for filled in itertools.islice(TEMPLATE.finditer(text), MOST_TEMPLATES):
            runs.append(CommandRun(text[at : filled.start()], base + at, base + filled.start()))
            at = filled.end()
            runs.append(CommandRun(filled[0], base + filled.start(), base + at, known=False, splits=True))
        runs.append(CommandRun(text[at:], base + at, base + len(text)))
        return cls.of_runs(runs, lines)

    def and_then(self, other: "ShellSource") -> "ShellSource":
        """Both texts as one, each of whose signs knows where it stands."""
        made = ShellSource(self.text + other.text, self.lines)
        made.places = [*self.all_places(), *other.all_places()]
        return made

    def all_places(self) -> list[tuple[int, int]]:
        if self.places is not None:
            return list(self.places)
        return [(at, at + 1) for at in range(self.base, self.base + len(self.text))]

    @classmethod
    def of_runs(cls, runs: Sequence[CommandRun], lines: ShellLines) -> "ShellSource":
        """What an inner shell reads."""
        source = cls("", lines)
        source.places = []
        parts = []
        own = {sign for run in runs if run.known for sign in FILLED_LATER.findall(run.text)}
        free = (sign for sign in map(chr, itertools.count(PLACEHOLDER)) if sign not in own)
        for run in runs:
            if not run.known:
                sign = next(free)
                source.placeholders[sign] = run
                parts.append(sign)
                source.places.append((run.start, run.end))
                continue
            parts.append(run.text)
            if run.exact:
                source.places += [(run.start + index, run.start + index + 1) for index in range(len(run.text))]
            else:
                source.places += [(run.start, run.end)] * len(run.text)
        source.text = "".join(parts)
        return source

    def place(self, start: int, end: int) -> tuple[int, int, bool]:
        """The stretch of the whole text for `text[start:end]`, and whether it is the same characters."""
        if self.places is None:
            return self.base + start, self.base + end, True
        inside = self.places[start:end] or self.places[start : start + 1] or self.places[-1:]
        if not inside:
            return 0, 0, False
        known = [place for place in inside if place[0] >= 0]
        if not known:
            return 0, 0, False
        if end <= start:
            return known[0][0], known[0][0], False
        exact = len(known) == len(inside) and all(
            a[1] == b[0] and a[1] - a[0] == 1 for a, b in itertools.pairwise(inside)
        )
        if exact:
            return inside[0][0], inside[-1][1], inside[-1][1] - inside[-1][0] == 1
        return known[0][0], max(known[0][1], known[-1][1]), False

    def span(self, start: int, end: int) -> Span:
        first, last, exact = self.place(start, end)
        return self.lines.span(first, last, exact)
