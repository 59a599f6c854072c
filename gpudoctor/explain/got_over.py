"""Faults that have come right, as a later line of whoever told them tells: a pod that had to wait and was then started,
a link that is up again, a server that answers again, a job of a list that was handed in once more.

Which line that is stands with the symptom (`over`). And where so much progress stands behind a fault that it can be no
other rank's, which would have waited for one that is gone, what ended the job later is another matter. What has come
right may still be why something failed meanwhile, but it is the answer only where nothing else is.
"""

import re
from collections.abc import Mapping, Sequence

from gpudoctor.explain.course import LETTERS, LONGEST, MILD, TROUBLE
from gpudoctor.explain.order import Facts
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import Event
from gpudoctor.explain.tracebacks import FRAME
from gpudoctor.lazy import lazy_re

ALIKE, SHORTEST = 8, 8
"""Lines alike behind a fault, and letters of each, that show that the program went on (our rule of thumb)."""
MUCH = 24
"""Lines behind a command that failed, which show that its script went on (our rule of thumb)."""
MAY_FAIL = lazy_re(
    r"\bcould not remove \S|(?:^|\s)(?:rm|mkdir|rmdir|ls|cat|kill|pkill|stty|umount|cp|ln|chmod|chown|sysctl|ulimit): "
)
"""Commands of which scripts go on when they fail."""
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


def left_behind(trouble: Sequence[Line], ends: Mapping[str, Sequence[tuple[int, str]]]) -> tuple[Line, ...]:
    """Without what a program told of one of many things, before and behind which it tells of others in the same words
    with other numbers, and without a command that failed in a script which went on."""
    return tuple(
        line
        for line in trouble
        if not (_went_on_alike(line, ends.get(line.file, ())) or _script_went_on(line, ends.get(line.file, ())))
    )


def _script_went_on(line: Line, lines: Sequence[tuple[int, str]]) -> bool:
    """Behind a command of which scripts go on when it fails, much is told, and no trouble."""
    if MAY_FAIL.search(line.text) is None:
        return False
    behind = [text for number, text in lines if number > line.line]
    return len(behind) >= MUCH and not any(TROUBLE.search(text) and not MILD.search(text) for text in behind)


def _went_on_alike(line: Line, lines: Sequence[tuple[int, str]]) -> bool:
    before: dict[str, set[str]] = {}
    behind: dict[str, set[str]] = {}
    for number, text in lines:
        shape = LETTERS.sub("", text[:LONGEST])
        if len(shape) >= SHORTEST and not (TROUBLE.search(text[:LONGEST]) or FRAME.match(text)):
            (before if number < line.line else behind).setdefault(shape, set()).add(text)
    return any(len(texts) >= ALIKE and shape in before for shape, texts in behind.items())


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
