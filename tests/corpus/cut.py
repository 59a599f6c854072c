"""What `explain` says of a log whose decisive lines are cut out: nothing, the same kind, or something else.

Labels play no part: a line that follows from a cause, or goes with it, must not be taken for another cause as soon as
the cause itself is missing. What is left may hold a second fault, so a few are right to name another.
"""

import io
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation, LogCause
from gpudoctor.sure import LIKELY, PRIMARY
from tests.corpus.cases import Case
from tests.corpus.score import WIDER


class Cut(NamedTuple):
    case: Case
    whole: LogCause
    rest: LogCause | None

    @property
    def outcome(self) -> str:
        if self.rest is None:
            return "no cause"
        if self.rest.cause == self.whole.cause or self.rest.kind in {
            *WIDER.get(self.whole.kind, {self.whole.kind}),
            self.case.class_,
        }:
            return "the same kind"
        return "another, likely or surer" if self.rest.confidence >= LIKELY else "another, possible"


def _asked(log: bytes) -> Explanation:
    return explain(["-"], stdin=io.BytesIO(log))


def cut(cases: Iterable[Case]) -> list[Cut]:
    """Of each case in which a cause is decided."""
    found = []
    for case in cases:
        log = case.log.encode()
        whole = _asked(log).causes
        if case.verdict != "cause" or not whole or whole[0].confidence < PRIMARY:
            continue
        gone = {line.line for line in whole[0].evidence}
        rest = _asked(b"\n".join(text for number, text in enumerate(log.split(b"\n"), 1) if number not in gone)).causes
        found.append(Cut(case, whole[0], rest[0] if rest else None))
    return found


def table(cuts: list[Cut]) -> list[str]:
    """A line for each half."""
    lines = []
    for half in ("tune", "keep"):
        counted = Counter(each.outcome for each in cuts if each.case.half == half)
        lines.append(f"{half}: " + ", ".join(f"{outcome}: {counted[outcome]}" for outcome in sorted(counted)))
    return lines
