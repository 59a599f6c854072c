"""A short text that is not as it was written: with a mail's or a word processor's signs, each line in an object of
JSON, all of it in one string, or folded at the width of a terminal.

These are how people paste. Each line of what is given back has the number of the line that it stood in.
"""

import codecs
from collections import Counter
from typing import Any, NamedTuple

import msgspec

from gpudoctor.explain.notebooks import from_notebook
from gpudoctor.explain.writers import writer
from gpudoctor.knowledge.typed import as_typed
from gpudoctor.lazy import lazy_re

MOST_BYTES = 256 * 1024
"""A longer text is no paste."""
ESCAPE = lazy_re(rb"\\(.)")
ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b""}
FEW_LINES = 3
"""So many lines at most has a text that holds a log as a string."""
FEW_ESCAPES = 3
"""Line ends that such a string has at least."""
STRING = lazy_re(rb"(?<!\\)\"(?:[^\"\\]|\\.)*\"|(?<!\\)'(?:[^'\\]|\\.)*'")
QUOTED = (b"> ", b">")
QUOTE = lazy_re(rb"> ?")
SAID = ("log", "msg", "message", "event", "textPayload", "line", "text")
"""Where structured loggers and collectors keep the line (docker, zap, structlog, python-json-logger, Cloud Logging)."""
WHEN = ("time", "timestamp", "asctime", "ts")
UNTROUBLED = frozenset({"DEBUG", "INFO", "WARN", "WARNING"})
"""Levels that say of a line that it is no error."""
MOSTLY = 0.8
"""Of the lines, before a text is taken for structured."""
NARROW, WIDE = 40, 250
"""Columns between which a terminal's width is looked for."""
USUAL = frozenset({79, 80, 100, 120, 132})
"""Widths of terminals at which one folded line is believed; else it takes `MANY`."""
MANY = 3
SPACED = 7
"""Lines from which on a text of which each second is empty is believed to have been spaced so (our choice)."""
MAIL = 60, 82
"""Columns between which mails are folded."""
MAILS = frozenset({70, 71, 72, 75, 76, 77, 78, 79, 80})
BEGINS = lazy_re(
    r"Traceback \(most recent|(?:[A-Za-z_][\w.]{0,100}\.)?[A-Z]\w{0,60}(?:Error|Exception|Warning)\b|File \"|"
    r"[-=#*_]{4}|\[|\{|During handling|The above exception|>|\d{1,2}/|\S{1,60}: (?:error|fatal)|Rank \d"
)
"""What begins a line of its own, however long the line before is."""
SPEAKS = lazy_re(r"[\w./@+-]{1,60}(?:\[\d{1,8}\])?: ?\S|\d{1,5}[:/-]\d")
"""How programs begin a line of their own: their name, or the time."""
BEGINNING = 40
"""Characters by which two long lines are told apart: the same line of several ranks has one width by itself."""


class Straight(NamedTuple):
    text: bytes
    numbers: tuple[int, ...]
    """Of each line, the number in the text as it was given."""

    def given(self, number: int) -> int:
        """The number in the text as it was given of a line of this one."""
        return self.numbers[min(max(number, 1), len(self.numbers)) - 1]


def straight(text: bytes) -> Straight | None:
    """The text as its program wrote it; None where it is so already, or too long to be a paste."""
    if len(text) > MOST_BYTES:
        return None
    typed = _single_spaced(_typed(text))
    if typed is not None:
        numbers = tuple(number for number, line in enumerate(text.split(b"\n"), 1) if line.strip())
        inner = straight(typed)
        if inner is None:
            return Straight(typed, numbers)
        return Straight(inner.text, tuple(numbers[min(number, len(numbers)) - 1] for number in inner.numbers))
    typed = _typed(text)
    changed = _from_objects(typed) or _unescaped(typed) or _noted(typed) or _unfolded(typed) or _unwrapped(typed)
    if changed or typed == text:
        return changed
    return Straight(typed, tuple(range(1, typed.count(b"\n") + 2)))


def _single_spaced(text: bytes) -> bytes | None:
    """Without the empty line behind each line, as word processors and some pages paste; None where it has none such."""
    lines = [line.strip(b"\r") for line in text.rstrip().split(b"\n")]
    filled = [line for line in lines if line.strip()]
    spaced = (
        len(lines) >= SPACED and all(line.strip() for line in lines[::2]) and not any(map(bytes.strip, lines[1::2]))
    )
    return b"\n".join(filled) + b"\n" if spaced else None


def _typed(text: bytes) -> bytes:
    """With the signs that programs write, and without what a mail puts before each line."""
    if text.startswith(codecs.BOM_UTF8):
        text = text[len(codecs.BOM_UTF8) :]
    text = as_typed(text)
    lines = text.split(b"\n")
    if all(line.startswith(QUOTED) or not line.strip() for line in lines) and len(lines) > 1:
        text = b"\n".join(QUOTE.sub(b"", line, count=1) for line in lines)
    return text


def plain(text: bytes) -> bytes:
    """Without the escapes of JSON and of Python's repr."""
    return ESCAPE.sub(lambda match: ESCAPES.get(match[1], match[1]), text)


def _from_objects(text: bytes) -> Straight | None:
    lines = text.split(b"\n")
    filled = [line for line in lines if line.strip()]
    if len(filled) < 2 or sum(line.lstrip().startswith(b"{") for line in filled) < MOSTLY * len(filled):
        return None
    written: list[bytes] = []
    numbers: list[int] = []
    understood = 0
    for number, line in enumerate(lines, 1):
        said = _said(line)
        understood += said is not None
        parts = [line] if said is None else said.encode("utf-8", "replace").rstrip(b"\n").split(b"\n")
        written += parts
        numbers += [number] * len(parts)
    return Straight(b"\n".join(written), tuple(numbers)) if understood >= MOSTLY * len(filled) else None


def _said(line: bytes) -> str | None:
    """What an object says, with its time before it where that is written out."""
    try:
        entry = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    text = next((entry[name] for name in SAID if isinstance(entry.get(name), str)), None)
    when = next((entry[name] for name in WHEN if isinstance(entry.get(name), str)), "")
    if text is not None and str(entry.get("level")).upper() in UNTROUBLED:
        when = f"{when} {str(entry['level']).upper()}"
    return text if text is None or not when or "\n" in text.rstrip("\n") else f"{when} {text}"


def _unescaped(text: bytes) -> Straight | None:
    lines = text.split(b"\n")
    if sum(bool(line.strip()) for line in lines) > FEW_LINES or text.count(b"\\n") < FEW_ESCAPES:
        return None
    written: list[bytes] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, 1):
        inside = next((match for match in STRING.finditer(line) if match[0].count(b"\\n") >= FEW_ESCAPES), None)
        parts = [line]
        if inside is not None:
            start, end = inside.start() + 1, inside.end() - 1
            parts = [line[:start], *plain(line[start:end]).split(b"\n"), line[end:]]
        written += parts
        numbers += [number] * len(parts)
    return Straight(b"\n".join(written), tuple(numbers)) if len(written) > len(lines) else None


def _noted(text: bytes) -> Straight | None:
    if b"Traceback (most recent call last)" not in text:
        return None
    noted = from_notebook(text.decode("utf-8", "replace").split("\n"))
    return None if noted is None else Straight("\n".join(noted[0]).encode(), tuple(noted[1]))


def _unfolded(text: bytes) -> Straight | None:
    lines = text.decode("utf-8", "replace").split("\n")
    width = max(map(len, lines))
    if not NARROW <= width <= WIDE:
        return None
    joined: list[str] = []
    numbers: list[int] = []
    begun: set[str] = set()
    inside_words = runs = 0
    continues = False
    often = Counter(line.partition(" ")[0] for line in lines)
    for number, line in enumerate(lines, 1):
        own = SPEAKS.match(line) or often[line.partition(" ")[0]] > 1
        if continues and line and not own and not writer(line).length:
            inside_words += joined[-1][-1].islower() and line[0].islower()
            joined[-1] += line
        else:
            joined.append(line)
            numbers.append(number)
            continues = False
        if len(line) == width:
            if not continues:
                begun.add("".join(filter(str.isalpha, line))[:BEGINNING])
                runs += 1
            continues = True
        else:
            continues = False
    if 2 * inside_words < runs or min(runs, inside_words, len(begun)) < (1 if width in USUAL else MANY):
        return None
    return Straight("\n".join(joined).encode(), tuple(numbers))


def _unwrapped(text: bytes) -> Straight | None:
    """As a mail is folded, between words: the next word would have gone beyond the width."""
    lines = text.decode("utf-8", "replace").split("\n")
    width = max((len(line) for line in lines if " " in line.strip()), default=0)
    if not MAIL[0] <= width <= MAIL[1]:
        return None
    joined: list[str] = []
    numbers: list[int] = []
    begun: set[str] = set()
    before = ""
    inside_words = runs = 0
    for number, line in enumerate(lines, 1):
        word = line.partition(" ")[0]
        full = bool(before.strip("-=#*_") and word) and len(before) + 1 + len(word) > width
        if full and not line[0].isspace() and not BEGINS.match(line) and not writer(line).length:
            begun.add("".join(filter(str.isalpha, joined[-1]))[:BEGINNING])
            inside_words += before[-1:].isalnum() and line[0].islower()
            runs += 1
            joined[-1] += " " + line
        else:
            joined.append(line)
            numbers.append(number)
        before = line
    few = sum(bool(line.strip()) for line in lines) <= FEW_LINES
    if inside_words < (1 if width in MAILS else MANY) or MANY * inside_words < runs or len(begun) < (1 if few else 2):
        return None
    return Straight("\n".join(joined).encode(), tuple(numbers))
