"""Of which class an end is that no table knows: of that whose labelled logs have words most like its own.

words_of_classes.txt holds what each word speaks for each class, and for a healthy log, learned from labelled logs
(`python -m tests.corpus train`). It is asked last. Where nothing else tells a class, it does; where the class of an
undecided answer, or of an exception, was told by looser ways, it must be ahead of that by a margin. It changes neither
what is told nor how sure it is, nor whether anything failed.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from msgspec import convert, structs

from gpudoctor.cause import Judged
from gpudoctor.explain.conclude import UNDECIDED, Conclusion
from gpudoctor.explain.end_lines import tells_an_end
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.scan import clean
from gpudoctor.explain.state_tables import IN_ITS_LOG
from gpudoctor.lazy import lazy_re
from gpudoctor.remedies import remedy_of_line

TABLE = "words_of_classes.txt"
PACKAGE = lazy_re(r"[\w./~-]{0,300}?(?:site|dist)-packages/(\w{1,60})[\w./-]{0,300}")
"""Of a path into it the package's name is what speaks."""
HUMP = lazy_re(r"(?<=[a-z])(?=[A-Z])")
WORD = lazy_re(r"[A-Za-z_]{2,}")
STEM = 8
"""Letters of a word that count: "missing" and "misses" are one."""
LONGEST = 500
FEW, LAST = 8, 8
"""Lines of the evidence and of the trouble that are read, and of a log's last ones."""
SAYS_NOTHING = frozenset({"other", "exception"})
STEP = 10
"""Parts of 1 in which a weight is written."""
ENOUGH = 5
"""Words that are known, below which nothing is said of a text that shows no failure (our rule of thumb)."""
AHEAD, FAR_AHEAD = 0.4, 0.7
"""By how much another class must be likelier than the one that is told: of an undecided answer, of an exception's class
that is decided. Chosen by what `explain` had said of tune's lots when it first saw them (docs/measured/explain.md)."""
OF_AN_EXCEPTION = "program-error"
"""The cause whose class is told by words; other causes are of one class by themselves."""
OF_EVENTS = frozenset({"signal", "node-lost", "preempted", "user-interrupt"})
"""Told by the form of what says that it happened, and not by words of a message."""
HEALTHY = "."
"""Stands in the table for the lines of healthy logs."""
SPEAKS = lazy_re(r"([A-Za-z.])(-?\d{1,3})")


def stems(lines: Iterable[str]) -> Counter[str]:
    """The words of these lines, as far as they count, and how often each stands there."""
    spaced = (HUMP.sub(" ", PACKAGE.sub(r" lib_\1 ", line[:LONGEST])) for line in lines)
    return Counter(word.lower()[:STEM] for line in spaced for word in WORD.findall(line))


def weighed(found: Mapping[str, int], rarity: Mapping[str, float]) -> dict[str, float]:
    """How much each word that is known counts: rare ones more, of a length of 1 in all."""
    parts = {word: (1 + math.log(times)) * rarity[word] for word, times in found.items() if word in rarity}
    length = math.sqrt(sum(part * part for part in parts.values())) or 1.0
    return {word: part / length for word, part in parts.items()}


class WordsOfClasses(NamedTuple):
    classes: Mapping[str, tuple[Judged, float]]
    """By its letter: what is told of a class, and what speaks for it before any word does."""
    rarity: Mapping[str, float]
    speaks_for: Mapping[str, str]
    """Of a word the classes' letters, each with its weight."""

    def most_alike(self, lines: Iterable[str], *, failed: bool, told: str = "", ahead: float = 0.0) -> Judged | None:
        """None where these lines are more like those of healthy logs, or no word of them is known: few, where nothing
        shows that something failed (not `failed`). Another class than `told` must be `ahead` of it."""
        parts = weighed(stems(lines), self.rarity)
        if not parts or (not failed and len(parts) < ENOUGH):
            return None
        scores = {letter: own + ahead * (known.kind == told) for letter, (known, own) in self.classes.items()}
        for word, part in parts.items():
            for letter, weight in SPEAKS.findall(self.speaks_for[word]):
                scores[letter] += part * int(weight) / STEP
        best = max((letter for letter in scores if letter != HEALTHY), key=scores.__getitem__)
        return self.classes[best][0] if scores[best] > scores[HEALTHY] else None


@cache
def words() -> WordsOfClasses:
    """The table, read when it is first asked."""
    head, _, rows = files(__package__).joinpath(TABLE).read_text(encoding="utf-8").partition("\n\n")
    classes = {}
    for line in head.splitlines():
        letter, kind, blame, restart, own = line.split("\t")
        classes[letter] = convert({"kind": kind, "blame": blame, "restart": restart}, Judged), float(own)
    rarity, speaks_for = {}, {}
    for row in rows.splitlines():
        word, rare, speaks_for[word] = row.split(" ")
        rarity[word] = int(rare) / STEP
    return WordsOfClasses(classes, rarity, speaks_for)


def classed(
    concluded: Conclusion,
    told: Judged | None,
    trouble: Sequence[Line],
    ends: Mapping[str, Sequence[tuple[int, str]]],
    *,
    shown: bool,
) -> tuple[Conclusion, Judged | None]:
    """With a class for what failed, or may have, where nothing else tells one or this one is far likelier than the one
    that is `told`. `trouble`: the lines that are quoted with it; `ends`: the last lines of each log; `shown`: what
    became of the job is told without that."""
    first = concluded.causes[0] if concluded.causes else None
    decided = first is not None and first.confidence >= UNDECIDED
    known = "other" if told is None else told.kind
    failed = first is not None or concluded.unknown is not None
    if shown and not failed:
        return concluded, told
    if IN_ITS_LOG in (concluded.unknown or ""):
        return concluded, told
    exact = concluded.waited or known in OF_EVENTS
    if first is not None and decided:
        exact = exact or first.cause != OF_AN_EXCEPTION or _is_known(first)
    if exact and known not in SAYS_NOTHING:
        return concluded, told
    said = [*(first.evidence[:FEW] if first else ()), *trouble[:FEW]]
    file = next((line.file for line in said if line.file in ends), next(iter(ends), ""))
    last = [clean(text) for _, text in ends.get(file, ()) if text.strip()][-LAST:]
    lines = [text for text in (*(line.text for line in said), *last) if not tells_an_end(text)]
    judged = words().most_alike(lines, failed=failed, told=known, ahead=FAR_AHEAD if decided else AHEAD)
    if judged is None or judged.kind == known:
        return concluded, told
    if told is not None and known not in SAYS_NOTHING:
        judged = structs.replace(judged, restart=told.restart)
    elif not decided and (not failed or judged.restart != "after a fix"):
        judged = structs.replace(judged, restart="not decided")
    if first is None or not (decided or first.kind in SAYS_NOTHING):
        return concluded, judged
    first = structs.replace(first, kind=judged.kind, blame=judged.blame, restart=judged.restart)
    return structs.replace(concluded, causes=(first, *concluded.causes[1:])), judged


def _is_known(cause: LogCause) -> bool:
    """Whether its words have a remedy, which tells their class."""
    remedied = remedy_of_line(cause.evidence[0].text) if cause.evidence else None
    return remedied is not None and remedied[0].judged is not None
