"""Which lines show a symptom: quick for logs in which nearly none does.

A log repeats itself: taken without digits, most of its lines have one of a few hundred *shapes*. Whether a shape can
show a symptom is asked once, by the symptoms' needles without digits, and then looked up; so the cost of a usual
line is that of a set operation. Nothing is missed by it: a line that holds a needle has a shape that holds the
needle's shape.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush

from msgspec import Struct

from gpudoctor.needles import VARIES
from gpudoctor.symptom import ROLES, Symptom

MOST_SHAPES = 20_000
"""That are remembered; then it is begun anew."""
MOST_WORDS = 50_000
"""That are remembered; then it is begun anew."""
SHORTEST_SHAPE = 5
"""What is left of a needle (":fe80:") must be so long to tell anything; a shorter one is looked for as it is."""
LONGEST_SHAPE = 2_000
"""A longer line is asked each time."""
MOST_OF_A_SHAPE = 4_000
"""Lines of one shape that have shown something; a log that repeats itself more often says nothing new."""
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
        self.of_shape: dict[bytes, list[bytes]] = {}
        self.weak: list[bytes] = []
        for needle_bytes in self.symptoms:
            shape = needle_bytes.translate(None, VARIES)
            if len(shape) < SHORTEST_SHAPE:
                self.weak.append(needle_bytes)
            else:
                self.of_shape.setdefault(shape, []).append(needle_bytes)

    @cached_property
    def anchors(self) -> dict[bytes, tuple[bytes, ...]]:
        """Made where a log is read as blocks: it takes a while, and a single line needs none."""
        prose = b" ".join(text.encode() for symptom in self.table for text in symptom.seen)
        return anchors(self.of_shape, prose.translate(None, VARIES))

    @cached_property
    def of_several_words(self) -> tuple[bytes, ...]:
        return tuple(anchor for anchor in self.anchors if b" " in anchor)

    @cached_property
    def by_head(self) -> dict[bytes, list[bytes]]:
        """Anchors by the shortest one that they begin with."""
        heads: dict[bytes, list[bytes]] = {}
        for anchor in sorted((anchor for anchor in self.anchors if b" " not in anchor), key=len):
            head = next((anchor[:length] for length in range(1, len(anchor)) if anchor[:length] in heads), anchor)
            heads.setdefault(head, []).append(anchor)
        return heads

    @cached_property
    def _tree(self) -> bytes:
        return _tree(self.by_head)

    @cached_property
    def any_head(self) -> re.Pattern[bytes]:
        """Any of the anchors, in one pass: a tree of their letters, so that most places cost one look."""
        return re.compile(self._tree)

    @cached_property
    def overlapping(self) -> re.Pattern[bytes]:
        return re.compile(b"(?=(" + self._tree + b"))")


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
        self._known: set[bytes] = set()
        self._hot: dict[bytes, tuple[bytes, ...]] = {}
        self._seen: dict[bytes, int] = {}
        self._words: set[bytes] = set()
        self._of_word: dict[bytes, tuple[bytes, ...]] = {}
        """Words that were seen before; those that hold an anchor, with these."""

    def begin(self) -> None:
        """Before each log: how often a shape was seen counts within one."""
        self._seen.clear()

    def has_matched(self, line: Suspect) -> None:
        """A line of this shape has shown something; after so many of them no more are asked for."""
        self._seen[line.shape] = self._seen.get(line.shape, 0) + 1

    def candidates(self, text: bytes, first_line: int) -> Iterator[tuple[Suspect, tuple[bytes, ...], list[bytes]]]:
        """Lines that may show something: each with the needles it holds, and all the lines of the block.

        A part of a line that begins with "\\r" (a progress bar) is looked at by itself, under the line's number.
        """
        if b"\r" in text:
            text = text.replace(b"\r", b"\n\r")
        shapes = text.translate(None, VARIES).split(b"\n")
        present = set(shapes)
        self._learn(present - self._known - self._hot.keys())
        hot = {shape for shape in present & self._hot.keys() if self._seen.get(shape, 0) < MOST_OF_A_SHAPE}
        weak = [needle for needle in self._needles.weak if needle in text]
        if not hot and not weak:
            return
        lines = text.split(b"\n")
        behind = 0
        has_parts = b"\r" in text
        for index, shape in enumerate(shapes):
            if has_parts and shape.startswith(b"\r"):
                behind += 1
            if weak or shape in hot:
                line = lines[index]
                needles = tuple(
                    [
                        needle
                        for needle in (*self._hot.get(shape, ()), *weak)
                        if needle in line and not ((unless := self._needles.unless[needle]) and unless in line)
                    ]
                )
                if needles:
                    yield Suspect(first_line + index - behind, index, line, shape), needles, lines
        for shape in hot:
            if len(shape) > LONGEST_SHAPE:
                del self._hot[shape]

    def _learn(self, new: set[bytes]) -> None:
        """Sort shapes into those that may hold a needle and those that do not."""
        if not new:
            return
        if len(self._known) > MOST_SHAPES or len(self._hot) > MOST_SHAPES:
            self._known.clear()
            self._hot = {shape: self._hot[shape] for shape in new & self._hot.keys()}
            self._seen.clear()
        joined = b"\n".join((b"", *new, b""))
        hot = self._hot_words(set(joined.split()))
        for shape in new if hot else ():
            words = shape.split()
            if not hot.keys().isdisjoint(words):
                parts = {part for word in hot.keys() & words for part in hot[word]}
                self._heat(shape, [part for part in parts if part in shape])
        for anchor in self._needles.of_several_words:
            at = joined.find(anchor)
            while at >= 0:
                start, end = joined.rfind(b"\n", 0, at) + 1, joined.find(b"\n", at)
                shape = joined[start:end]
                self._heat(shape, (part for part in self._needles.anchors[anchor] if part in shape))
                at = joined.find(anchor, end)
        self._known.update(shape for shape in new if len(shape) <= LONGEST_SHAPE and shape not in self._hot)

    def _heat(self, shape: bytes, parts: Iterable[bytes]) -> None:
        """Remember that a shape holds these parts."""
        if needles := [needle for part in parts for needle in self._needles.of_shape[part]]:
            self._hot[shape] = tuple(dict.fromkeys((*self._hot.get(shape, ()), *needles)))

    def _parts_in(self, word: bytes) -> Iterator[bytes]:
        """The needles' shapes of which a word may be a piece: of one word it holds them, of several it begins, is or
        ends with the piece."""
        heads = set(self._needles.overlapping.findall(word))
        for anchor in (text for head in heads for text in self._needles.by_head[head] if text in word):
            for part in self._needles.anchors[anchor]:
                pieces = part.split(b" ")
                at = next((index for index, piece in enumerate(pieces) if anchor in piece), 0)
                first, last = at == 0, at == len(pieces) - 1
                if first and last:
                    fits = part in word
                elif first or last:
                    fits = word.endswith(pieces[at]) if first else word.startswith(pieces[at])
                else:
                    fits = word == pieces[at]
                if fits:
                    yield part

    def _hot_words(self, words: set[bytes]) -> dict[bytes, tuple[bytes, ...]]:
        """Those that may be a piece of a needle, with these: text repeats its words also where it does not repeat its
        lines."""
        if len(self._words) > MOST_WORDS:
            self._words.clear()
            self._of_word.clear()
        unknown = words - self._words
        text = b"\n".join((*unknown, b""))
        end = 0
        for match in self._needles.any_head.finditer(text):
            if match.start() >= end:
                word = text[text.rfind(b"\n", 0, match.start()) + 1 : (end := text.find(b"\n", match.end()))]
                if parts := tuple(self._parts_in(word)):
                    self._of_word[word] = parts
        self._words |= unknown
        return {word: self._of_word[word] for word in words & self._of_word.keys()}

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


USUAL = b"tionsrlhmpugkwyvxqjz"
"""Letters of shapes by how often they come: a choice is tried in its order."""


def _tree(texts: Iterable[bytes]) -> bytes:
    """A pattern that finds whichever of the texts begins first."""
    by_first: dict[bytes, list[bytes]] = {}
    for text in texts:
        if not text:
            return b""
        by_first.setdefault(text[:1], []).append(text[1:])
    usual_first = sorted(by_first, key=lambda first: (first not in USUAL, USUAL.find(first), first))
    branches = [re.escape(first) + _tree(by_first[first]) for first in usual_first]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"


ANCHOR = 5
"""Characters. Longer ones would stand in fewer lines, and more of them would be needed (measured: 4 to 9)."""


def anchors(shapes: Iterable[bytes], prose: bytes = b"") -> dict[bytes, tuple[bytes, ...]]:
    """Few short parts such that every needle holds one of them, with the needles: a search for these rules out most.

    Greedy: the part that most of the needles left hold is taken next; one that ordinary sentences (`prose`) hold counts
    the less the more often they do. One with a blank in it is taken only where there is no other: a text has few words,
    and many pairs of them.
    """

    def parts_of(text: bytes, length: int) -> list[bytes]:
        return [text[start : start + length] for start in range(len(text) - length + 1)]

    lengths = (ANCHOR, ANCHOR - 1, ANCHOR - 2)
    usual = Counter(part for length in lengths for part in parts_of(prose, length))
    held_by: dict[bytes, set[bytes]] = {}
    for shape in shapes:
        long, *short = ({part for part in parts_of(shape, length) if b" " not in part} for length in lengths)
        for part in long or set().union(*short) or set(parts_of(shape, ANCHOR)) or {shape}:
            held_by.setdefault(part, set()).add(shape)
    weight = {part: 1.0 / (1 + usual[part]) for part in held_by}
    best_first = [(-len(held) * weight[part], part) for part, held in held_by.items()]
    heapify(best_first)
    chosen: dict[bytes, tuple[bytes, ...]] = {}
    left = {shape for held in held_by.values() for shape in held}
    while left:
        worth, part = heappop(best_first)
        covered = held_by[part] & left
        if covered and -len(covered) * weight[part] > worth:  # some of them were covered since
            heappush(best_first, (-len(covered) * weight[part], part))
        elif covered:
            chosen[part] = tuple(sorted(covered))
            left -= covered
    return chosen
