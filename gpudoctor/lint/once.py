"""What many rules ask of one job, or of a part of it: the answers for the last ones are kept."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from gpudoctor.lint.model import LintJob

S = TypeVar("S")
T = TypeVar("T")
MOST = 64
"""Parts of a job whose answers are kept."""


def once_a_job(answer: Callable[[LintJob], T]) -> Callable[[LintJob], T]:
    """Of the last job alone."""
    return _kept(answer, 1)


def once_each(answer: Callable[[S], T]) -> Callable[[S], T]:
    """The same for a part of a job, of which it has several."""
    return _kept(answer, MOST)


def _kept(answer: Callable[[S], T], most: int) -> Callable[[S], T]:
    """What is asked about is compared by what it is and not by what it says: it is asked hundreds of times."""
    known: dict[int, tuple[S, T]] = {}

    @wraps(answer)
    def kept(part: S) -> T:
        entry = known.get(id(part))
        if entry is None or entry[0] is not part:
            if len(known) >= most:
                known.clear()
            entry = known[id(part)] = (part, answer(part))
        return entry[1]

    return kept
