"""Whether a log stands still, by its own timestamps."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from gpudoctor.explain.writers import writer

MOST_TIMES = 300
"""Lines whose time stamps are read."""
LONG = 600.0
"""Seconds without a line that are long in any log (our rule of thumb), if they are also ten of its usual gaps."""
MANY_GAPS = 10


def standing(lines: Sequence[tuple[int, str]], on: int) -> str:
    """Where nothing was written for long, and no progress after it."""
    stamped = [(number, moment) for number, text in lines[-MOST_TIMES:] if (moment := writer(text[:300]).time)]
    gaps = [(later - earlier, number) for (_, earlier), (number, later) in pairwise(stamped)]
    if len(gaps) < 2:
        return ""
    longest, number = max(gaps)
    usual = median(gap for gap, _ in gaps)
    if longest < LONG or longest < MANY_GAPS * usual or (on >= 0 and lines[on][0] >= number):
        return ""
    return f"nothing was written for {_spoken(longest)} before line {number}, and no progress after it"


def _spoken(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
