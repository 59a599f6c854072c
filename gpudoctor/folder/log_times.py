"""When lines of a log were written, and the steps that they tell.

A line's own time stamp counts; where it has none, the run has written down every few seconds how much had been said
(`run/use.py`), and the line's place in the log tells the rest, as exactly as that.
"""

import bisect
import re
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct, field

from gpudoctor.explain.lines import NotALog, blocks, open_log
from gpudoctor.explain.writers import Writer, file_writer, writer
from gpudoctor.lazy import lazy_re

LEFT_OUT = lazy_re(rb"\[gpudoctor: (\d{1,18}) bytes are left out here\]")
STEP = lazy_re(
    r"\b(?P<word>global[ _]?step|step|iter(?:ation)?|update|it|batch|epoch)s?[\"']?\s{0,3}[:=#]?\s{0,3}[\[(]?\s{0,6}"
    r"(?P<number>\d{1,12})\b(?!\.\d)|\s(?P<bar>\d{1,12})/\d{1,12} \[[\d:]{4,12}<",
    re.IGNORECASE,
)
"""The last form is tqdm's."""
ORDER = (
    "global step",
    "global_step",
    "globalstep",
    "step",
    "iteration",
    "iter",
    "update",
    "it",
    "bar",
    "batch",
    "epoch",
)
"""The best of a log, where its lines tell several."""
HAS_STEP = lazy_re(rb"(?i)step|iter|update|batch|epoch|\bit\b|\d/\d{1,12} \[")
MOST_STEPS, MOST_RANKS = 20_000, 1024
"""Points in all; a rank's are thinned out where there are more."""
LONGEST = 600
ZONE = 900.0
"""Seconds: zones differ by quarters of an hour."""


class LinePlace(Struct, frozen=True):
    """Where a line begins, and what time it tells."""

    offset: int
    stamp: float | None = None


class LogSeen(Struct, kw_only=True):
    """What one look at a log gives."""

    places: dict[int, LinePlace] = field(default_factory=dict)
    """Of the lines that were asked for."""
    steps: dict[str, dict[int | None, list[tuple[int, float | None, float]]]] = field(default_factory=dict)
    """By word and rank: (offset, stamp, number)."""
    first_stamp: float | None = None
    first_at: int = 0
    """Where that stands."""
    hosts: set[str] = field(default_factory=set)


def look(path: str, wanted: Collection[int], year: int) -> LogSeen:
    """One pass. What cannot be read tells nothing."""
    seen, of_file = LogSeen(), file_writer(path)
    try:
        with open_log(path) as raw:
            offset = 0
            for block in blocks(raw):
                size, more, at, number = len(block.text) or 1, 0, 0, block.first_line
                for line in block.text.split(b"\n"):
                    if gap := LEFT_OUT.fullmatch(line):
                        more += int(gap[1])
                    if line:
                        place = offset + at * block.raw_bytes // size + more
                        _line(seen, line, number, place, number in wanted, of_file, year)
                    at += len(line) + 1
                    number += 1
                offset += block.raw_bytes + more
    except NotALog:
        pass
    return seen


def _line(
    seen: LogSeen, line: bytes, number: int, offset: int, is_wanted: bool, of_file: Writer, year: int
) -> None:  # fmt: skip
    tells = HAS_STEP.search(line[:LONGEST])
    if not (tells or is_wanted or seen.first_stamp is None):
        return
    text = line[-LONGEST:].decode("utf-8", "replace") if b"\r" in line else line[:LONGEST].decode("utf-8", "replace")
    who = writer(text.lstrip("\r"), year)
    if who.host:
        seen.hosts.add(who.host)
    if who.time is not None and seen.first_stamp is None:
        seen.first_stamp, seen.first_at = who.time, offset
    if is_wanted:
        seen.places[number] = LinePlace(offset, who.time)
    rank = who.rank if who.rank is not None else of_file.rank
    for match in STEP.finditer(text, who.length) if tells else ():
        word = "bar" if match["bar"] else match["word"].lower()
        ranks = seen.steps.setdefault(word, {})
        if rank in ranks or len(ranks) < MOST_RANKS:
            ranks.setdefault(rank, []).append((offset, who.time, float(match["bar"] or match["number"])))


def steps_of(seen: Sequence[LogSeen]) -> dict[int | None, list[tuple[int, int, float | None, float]]]:
    """By rank: (log, offset, stamp, step), of the best word that all logs tell; thinned out."""
    for word in ORDER:
        points_by_rank: dict[int | None, list[tuple[int, int, float | None, float]]] = {}
        for number, log_seen in enumerate(seen):
            for rank, points in log_seen.steps.get(word, {}).items():
                points_by_rank.setdefault(rank, []).extend((number, *point) for point in points)
        enough = {rank: points for rank, points in points_by_rank.items() if len({point[3] for point in points}) > 2}
        if enough:
            most = max(12, MOST_STEPS // len(enough))
            return {rank: list(_thinned(points, most)) for rank, points in enough.items()}
    return {}


def _thinned(
    points: Sequence[tuple[int, int, float | None, float]], most: int
) -> Iterator[tuple[int, int, float | None, float]]:
    by = -(-len(points) // most)
    for number, point in enumerate(points):
        if number % by == 0 or number == len(points) - 1:
            yield point


class RunClock:
    """Seconds after the start, of a place in the log of a run or of a time stamp."""

    def __init__(self, started: float | None, said: Sequence[tuple[float, int]], log: LogSeen | None) -> None:
        """`started`: seconds since 1970; None: nothing but stamps tells. `said`: (seconds, bytes), in order. `log`: the
        one whose stamps are to be understood."""
        self._said = said
        self._bytes = [size for _, size in said]
        self._zero = started
        if log is not None and log.first_stamp is not None:
            self._zero = log.first_stamp
            if started is not None:  # a log's local time was read as if it were UTC
                expected = started + (self.at(log.first_at, None) or 0.0)
                zone = ZONE if said else 2 * ZONE
                self._zero = started + round((log.first_stamp - expected) / zone) * zone

    def at(self, offset: int | None, stamp: float | None) -> float | None:
        if stamp is not None and self._zero is not None:
            return round(max(0.0, stamp - self._zero), 3)
        if offset is None or not self._said:
            return None
        number = bisect.bisect_right(self._bytes, offset)  # the first look by which more had been said
        return self._said[min(number, len(self._said) - 1)][0]
