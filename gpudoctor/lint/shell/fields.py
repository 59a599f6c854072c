"""Pieces -> words, as the shell splits them."""

import itertools
import re

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import Expansion, Word
from gpudoctor.lint.shell.braces import braces
from gpudoctor.lint.shell.source import CommandRun, ShellSource

BLANKS = lazy_re(r"[ \t\n]+")
MOST_WORDS = 2000


def fields(runs: list[CommandRun], separators: str = "") -> list[list[CommandRun]]:
    """The words that an unquoted place gives: braces, expansions split at blanks or at what IFS has, arrays at their
    elements."""
    gaps = re.compile(f"[{re.escape(separators)}]") if separators.strip() else BLANKS
    return [word for way in braces(runs) for word in _split(way, gaps)][:MOST_WORDS]


def _split(runs: list[CommandRun], gaps: re.Pattern[str]) -> list[list[CommandRun]]:
    words: list[list[CommandRun]] = []
    current: list[CommandRun] = []
    for run in runs:
        if run.breaks:
            if current:
                words.append(current)
            current = []
            continue
        if not (run.splits and run.known and gaps.search(run.text)):
            current.append(run)
            continue
        at = 0
        for gap in gaps.finditer(run.text):
            if gap.start() > at:
                current.append(part(run, at, gap.start()))
            if _gives_word(current):
                words.append(current)
                current = []
            at = gap.end()
        if at < len(run.text):
            current.append(part(run, at, len(run.text)))
    if _gives_word(current):
        words.append(current)
    return words


def _gives_word(runs: list[CommandRun]) -> bool:
    """An empty expansion outside quotes is no word; `""` is one."""
    return any(run.text or run.quoted for run in runs)


def part(run: CommandRun, start: int, end: int) -> CommandRun:
    if run.exact:
        return run._replace(text=run.text[start:end], start=run.start + start, end=run.start + end)
    return run._replace(text=run.text[start:end], start=-1, end=-1)


def word(source: ShellSource, start: int, end: int, runs: list[CommandRun], *, whole: bool = True) -> Word:
    """The word of `source.text[start:end]`. `whole`: it is the only one that stands there."""
    known = all(run.known for run in runs)
    shown = "".join(run.text for run in runs)
    expansions: list[Expansion] = [expansion for run in runs for expansion in run.expansions]
    first, last, exact = source.place(start, end)
    raw = source.text[start:end]
    if not whole:
        raw = shown
        places = [run for run in runs if run.text]
        joined = all(a.end == b.start for a, b in itertools.pairwise(places))
        if places and joined and all(run.start >= 0 and (run.exact or not run.known) for run in places):
            first, last, exact = places[0].start, places[-1].end, True  # where the variable was given its value
        else:
            exact = False
    elif source.placeholders:
        raw = "".join(source.placeholders[sign].text if sign in source.placeholders else sign for sign in raw)
    return Word(
        raw=raw,
        text=shown if known else None,
        shown=shown,
        span=source.lines.span(first, last, exact),
        expansions=tuple(expansions),
        quoted=any(run.quoted for run in runs),
        literal_dollar=any(run.dollar for run in runs),
    )
