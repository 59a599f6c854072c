"""The last line that each rank's program has written itself, before the time of any collective was up.

A log says where the ranks are that waited. Of the one that did not come it has nothing but its own words, and these
stand far from the end: behind them come watchdogs' lines, stacks and tracebacks of all the others.
"""

from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.explain.report import Line
from gpudoctor.knowledge.wording import listed
from gpudoctor.lazy import lazy_re

OWN_LINE = lazy_re(
    rb"(?m)^(?:\[default\d{1,6}\]:[ ]?)?\[?[Rr]ank[ :=]{0,2}(?P<rank>\d{1,6})\b(?!\]:[ ]?\[[EWIF]\d|\] [^\n]*\bNCCL\b)"
    rb"[^\n]{1,400}"
)
"""As programs begin theirs: "rank 2 step 4", "[rank2]: ...", and under torchrun's prefix. Not torch's own in C++."""
OWN_RANK = lazy_re(r"^(?:\[default\d{1,6}\]:[ ]?)?\[?[Rr]ank[ :=]{0,2}\d{1,6}\b\]?:?[ ]?")
"""What such a line begins with."""
_SAID_BY = lazy_re(r"(?P<rank>\d{1,6})\b\]?:?[ ]?$")


def said_by(text: str) -> int | None:
    """The rank that a line of a program begins with."""
    head = OWN_RANK.match(text)
    found = _SAID_BY.search(head[0]) if head else None
    return int(found["rank"]) if found else None


OF_LIBRARIES = lazy_re(
    rb"\bNCCL (?:INFO|WARN|TRACE)\b|\.(?:cpp|cc|hpp):\d{1,6}\]|Traceback \(most|^\s*File \"|^frame #"
)
PREFIX = b"[rank"
PREFIXED_TRACEBACK = lazy_re(rb"\[rank\d{1,6}\]:[ ]?Traceback \(most")
"""torch's hook puts the rank before each line of what nobody caught (distributed_c10d.py, since 2.2)."""
TIME_IS_UP = b"collective operation timeout"
LATEST = 128 * 1024
"""Bytes at the end of each block that are looked at: a rank that trains writes more often than once in so much."""
MOST_OF_A_FILE = 64
"""Lines at the end of a rank's own file, among which the last of its program is."""


def own_lines(text: bytes, first_line: int, rank: int | None) -> Iterator[tuple[int, int, bytes]]:
    """Rank, number of the line and the line, of each rank its last; `rank`: whose file it is, where it is one rank's.

    Ends where a watchdog says that a time is up; whoever reads on in the same file has nothing more to ask for."""
    over = text.find(TIME_IS_UP)
    end = len(text) if over < 0 else over
    start = max(0, end - LATEST)
    latest = dict(_of_all(text, start, end) if rank is None else _of_one(text, start, end, rank))
    number, counted = first_line, 0
    for each, (at, line) in sorted(latest.items(), key=lambda item: item[1][0]):
        number += text.count(b"\n", counted, at)
        counted = at
        yield each, number, line


Placed = tuple[int, tuple[int, bytes]]
"""A rank, and where its line stands with what it says."""


def _of_all(text: bytes, start: int, end: int) -> Iterator[Placed]:
    ended: set[bytes] = set()
    for match in OWN_LINE.finditer(text, start, end):
        if PREFIXED_TRACEBACK.match(match[0]):
            ended.add(match["rank"])
        if match["rank"] not in ended or not match[0].startswith(PREFIX):
            yield int(match["rank"]), (match.start(), match[0])


def _of_one(text: bytes, start: int, end: int, rank: int) -> Iterator[Placed]:
    at = end + 1
    for line in reversed(text[start:end].split(b"\n")[-MOST_OF_A_FILE:]):
        at -= len(line) + 1
        if line.strip() and not OF_LIBRARIES.search(line):
            yield rank, (at, line)
            return


def is_over(text: bytes) -> bool:
    return TIME_IS_UP in text


def last_words_of(ranks: Sequence[int], said_last: Mapping[int, Line]) -> tuple[str, Line | None]:
    """A sentence to append, and the line of the first of these ranks that has one."""
    lines = [said_last[rank] for rank in ranks[:MOST_RANKS] if rank in said_last]
    if not lines:
        return "", None
    texts = ['"' + line.text[:MOST_QUOTED] + " ..." * (len(line.text) > MOST_QUOTED) + '"' for line in lines]
    whose = "it" if len(ranks) == 1 else "them"
    return f". The last from {whose} before: {listed(texts)}", lines[0]


MOST_RANKS, MOST_QUOTED = 3, 120
