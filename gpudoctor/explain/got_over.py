"""Faults that have come right, as a later line of whoever told them tells: a pod that had to wait and was then started,
a link that is up again, a server that answers again, a job of a list that was handed in once more.

Which line that is stands with the symptom (`over`). And where so much progress stands behind a fault that it can be no
other rank's, which would have waited for one that is gone, what ended the job later is another matter. What has come
right may still be why something failed meanwhile, but it is the answer only where nothing else is.
"""

import re
from collections.abc import Mapping, Sequence

from gpudoctor.explain.order import Facts
from gpudoctor.explain.scan import Event
from gpudoctor.lazy import lazy_re

SUBJECT = lazy_re(r"\b(?:pods?/|assigned [\w.-]{1,253}/)(?P<name>[\w.-]{1,253})|\bin pod (?P<of>[\w.-]{1,253})")
"""Whom an event of Kubernetes is about, where the line names it."""


def mark_got_over(
    facts: Facts,
    ends: Mapping[str, Sequence[tuple[int, str]]],
    moves: Mapping[str, Sequence[int]],
    most: int,
) -> None:
    """Mark such faults as lived through. `ends`: the last lines of each file; `moves`: numbers of those of progress, of
    which more than `most` behind a fault are none of ranks that only wait."""
    last = {event.at.file: event.at.line for event in facts.events if event.symptom.role != "context"}
    for event in facts.events:
        behind = sum(event.at.line < number < last.get(event.at.file, 0) for number in moves[event.at.file])
        if behind >= most or (event.symptom.over and _came_right(event, ends.get(event.at.file, ()))):
            event.lived_on |= event.symptom.role == "cause"


def _came_right(event: Event, lines: Sequence[tuple[int, str]]) -> bool:
    over = re.compile(_filled(event.symptom.over, event.values))
    about = _subject(event.at.text)
    return any(
        number > event.at.line and over.search(text) is not None and _subject(text) in ("", about or _subject(text))
        for number, text in lines
    )


def _filled(pattern: str, values: Mapping[str, str]) -> str:
    """With the values of the fault's line: it is the same link, server or job."""
    for name, value in values.items():
        pattern = pattern.replace(f"<{name}>", re.escape(value))
    return re.sub(r"(?<!\?P)<\w{1,20}>", r"\\S{1,80}", pattern)


def _subject(text: str) -> str:
    match = SUBJECT.search(text)
    return (match["name"] or match["of"]).split("_")[0].rstrip(".") if match else ""
