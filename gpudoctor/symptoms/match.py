"""Which lines show a symptom: quick for logs in which nearly none does.

One search through a block finds every needle of every symptom (Aho-Corasick); a pattern is asked of lines that hold its
own.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

from ahocorasick_rs import BytesAhoCorasick, Implementation
from msgspec import Struct

from gpudoctor.symptom import ROLES, Symptom

VARIES = b"0123456789abcdef.,+"
"""What is taken out of a line to have its *shape*: digits of both kinds of numbers, and what stands between them."""
MOST_OF_A_SHAPE = 4_000
"""Lines of one shape that have shown something; a log that repeats itself more often says nothing new."""
MOST_SHAPES = 20_000
"""That are counted; then it is begun anew."""
BEFORE, AFTER = 512, 1536
"""Characters around a needle to which the pattern is applied: bounds the work on a line of megabytes."""


class Suspect(Struct):
    """A line that may show something: its number, its bytes, and its index in the block."""

    number: int
    index: int
    text: bytes
    shape: bytes


class Needles:
    """The needles of a table, prepared; nothing of it changes by what is read."""

    def __init__(self, table: tuple[Symptom, ...], extra: tuple[str, ...] = ()) -> None:
        self.table, self.extra = table, extra
        self.symptoms: dict[bytes, list[Symptom]] = {}
        for symptom in table:
            for needle in symptom.needles:
                self.symptoms.setdefault(needle.encode(), []).append(symptom)
        for needle in extra:
            self.symptoms.setdefault(needle.encode(), [])
        self.unless = {
            needle: unless.pop().encode() if len(unless) == 1 else b""
            for needle, symptoms in self.symptoms.items()
            for unless in ({symptom.unless for symptom in symptoms},)
        }
        """What a line must not hold, where all symptoms of a needle say so: NCCL's lines of channels are many."""
        self.order = {id(symptom): number for number, symptom in enumerate(table)}
        self.texts = tuple(self.symptoms)

    @cached_property
    def search(self) -> BytesAhoCorasick:
        """Made where a log is read as blocks: it takes a while, and a single line needs none."""
        return BytesAhoCorasick(self.texts, implementation=Implementation.DFA)


MOST_TABLES = 4
_prepared: list[Needles] = []


def _needles(table: tuple[Symptom, ...], extra: tuple[str, ...]) -> Needles:
    """The same for the same table: preparing it costs more than reading a short log."""
    for needles in _prepared:
        if needles.table is table and needles.extra == extra:
            return needles
    _prepared[:] = [Needles(table, extra), *_prepared[: MOST_TABLES - 1]]
    return _prepared[0]


class Matcher:
    """The needles of a table, and what was seen of the logs that it reads."""

    def __init__(self, table: Sequence[Symptom], extra: Sequence[str] = ()) -> None:
        """`extra`: needles of what is no symptom and must be seen too (a traceback's first line)."""
        self._needles = _needles(tuple(table), tuple(extra))
        self._seen: dict[bytes, int] = {}

    def begin(self) -> None:
        """Before each log: how often a shape was seen counts within one."""
        self._seen.clear()

    def has_matched(self, line: Suspect) -> None:
        """A line of this shape has shown something; after so many of them no more are asked for."""
        if len(self._seen) >= MOST_SHAPES:
            self._seen.clear()
        self._seen[line.shape] = self._seen.get(line.shape, 0) + 1

    def candidates(self, text: bytes, first_line: int) -> Iterator[tuple[Suspect, tuple[bytes, ...], list[bytes]]]:
        """Lines that may show something: each with the needles it holds, and all the lines of the block.

        A part of a line that begins with "\\r" (a progress bar) is looked at by itself, under the line's number.
        """
        if b"\r" in text:
            text = text.replace(b"\r", b"\n\r")
        lines: list[bytes] = []
        index = parts = counted = 0
        unless = self._needles.unless
        for start, end, needles in self._by_line(text):
            line = text[text.rfind(b"\n", 0, start) + 1 : end]
            held = tuple([needle for needle in needles if not (unless[needle] and unless[needle] in line)])
            if not held or self._seen.get(shape := line.translate(None, VARIES), 0) >= MOST_OF_A_SHAPE:
                continue
            index += text.count(b"\n", counted, start)
            parts += text.count(b"\n\r", counted, start)
            counted = start
            lines = lines or text.split(b"\n")
            yield Suspect(first_line + index - parts, index, line, shape), held, lines

    def _by_line(self, text: bytes) -> Iterator[tuple[int, int, list[bytes]]]:
        """Of each line that holds needles: where the first of them begins, where the line ends, and the needles."""
        texts = self._needles.texts
        first, end = 0, -1
        held: list[bytes] = []
        for which, start, _ in self._needles.search.find_matches_as_indexes(text, overlapping=True):
            if start >= end:
                if held:
                    yield first, end, held
                first, end, held = start, text.find(b"\n", start) % (len(text) + 1), [texts[which]]
            elif texts[which] not in held:
                held.append(texts[which])
        if held:
            yield first, end, held

    def matches(self, line: bytes, needles: tuple[bytes, ...]) -> list[tuple[Symptom, dict[str, str]]]:
        """The symptoms that a line shows: what is context, and the one that says most of the others.

        Of several, a cause says more than a connection, that more than a consequence; then the first of the table.
        """
        matched: list[tuple[Symptom, dict[str, str]]] = []
        asked: set[int] = set()
        for needle in needles:
            at = line.find(needle)
            while at >= 0:
                window: str | None = None
                for symptom in self._needles.symptoms[needle]:
                    if id(symptom) in asked:
                        continue
                    if window is None:
                        window = line[max(0, at - BEFORE) : at + len(needle) + AFTER].decode("utf-8", "replace")
                    values = symptom.match(window)
                    if values is not None:
                        asked.add(id(symptom))
                        matched.append((symptom, values))
                at = line.find(needle, at + BEFORE + AFTER) if len(line) > BEFORE + AFTER else -1
        context = [pair for pair in matched if pair[0].role == "context"]
        others = [pair for pair in matched if pair[0].role != "context"]
        if others:
            context.append(
                min(others, key=lambda other: (ROLES.index(other[0].role), self._needles.order[id(other[0])]))
            )
        return context

    def in_text(self, text: str) -> Iterator[tuple[str, Symptom, dict[str, str]]]:
        """The lines of a short text that show something, each with what it shows."""
        raw = text.encode("utf-8", "replace")
        present = [needle for needle in self._needles.symptoms if needle in raw]
        for line in raw.split(b"\n") if present else ():
            for symptom, values in self.matches(line, tuple(needle for needle in present if needle in line)):
                yield line.decode("utf-8", "replace"), symptom, values
