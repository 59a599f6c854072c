"""Several starts in one log. By torchrun or a requeue: did each end alike, and did the job advance between them? Of
runs that were appended to it, the last one is told, and here how those before ended."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from gpudoctor.explain.deaths import Spoken, spoken
from gpudoctor.explain.order import Facts
from gpudoctor.explain.scan import Event, ToldExit, ToldTraceback
from gpudoctor.knowledge.wording import counted, shortened
from gpudoctor.lazy import lazy_re

BEGINS_ANEW = {"elastic-restarts": "will restart", "slurm-requeued": ""}
"""Symptom -> what its line holds where the job is started again."""
STEP = lazy_re(
    r"\b(?:global[ _]?)?(?:step|iter(?:ation)?|it|epoch|batch)s?\b[\"']?\s{0,3}[:=#]?\s{0,3}[\[(]?\s{0,6}"
    r"(?P<step>\d{1,9})\b",
    re.IGNORECASE,
)
MOST_NAMED = 4


def starts(facts: Facts, ends: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """In words; empty where there was one start only, or not two of one run tell why they ended.

    `ends`: the last lines of each file, by which the steps are told that it reached."""
    tracebacks = spoken(facts)
    said = (_of_runs(file, facts) or _of_file(file, facts, tracebacks, ends.get(file, ())) for file in facts.lines)
    return next(filter(None, said), "")


def _of_runs(file: str, facts: Facts) -> str:
    begun = facts.begun.get(file)
    if not begun:
        return ""
    before = Facts(
        events=[told for told in facts.earlier if isinstance(told, Event)],
        tracebacks=[told for told in facts.earlier if isinstance(told, ToldTraceback)],
        exits=[told for told in facts.earlier if isinstance(told, ToldExit)],
    )
    tracebacks = spoken(before)
    reasons = [_reason(file, first, last, before, tracebacks) for first, last in pairwise((-1, *begun))]
    given = {reason: number for number, reason in reversed(list(enumerate(reasons, 1))) if reason}
    named = "; ".join(f"run {number}: {reason}" for reason, number in sorted(given.items(), key=lambda one: one[1]))
    where = "this log" if len(facts.lines) == 1 else file
    told = f"{len(begun) + 1} runs in {where}: the last, from line {begun[-1]} on, is told"
    return f"{told}. Before it {shortened(named, 400)}" if named else told


def _of_file(file: str, facts: Facts, tracebacks: Sequence[Spoken], end: Sequence[tuple[int, str]]) -> str:
    anew = sorted(
        event.at.line
        for event in facts.events
        if event.at.file == file and event.symptom.id in BEGINS_ANEW and BEGINS_ANEW[event.symptom.id] in event.at.text
    )
    if not anew:
        return ""
    borders = list(zip([0, *anew], [*anew, facts.lines.get(file, anew[-1]) + 1], strict=True))
    reasons = [_reason(file, first, last, facts, tracebacks) for first, last in borders]
    given = [reason for reason in reasons if reason]
    if len(given) < 2:
        return ""
    if len(set(given)) > 1:
        named = "; ".join(f"start {number}: {words}" for number, words in enumerate(reasons, 1) if words)
        return f"{counted(len(borders), 'start')} that ended differently. {shortened(named, 400)}"
    steps = [_last_step(end, first, last) for first, last in borders]
    reached = [step for step in steps if step is not None]
    how = f"{len(given)} starts ended by the same cause"
    if len(reached) < 2:
        return how
    if len(set(reached)) == 1:
        return f"{how}, each at step {reached[0]}: starting it again brings it there again"
    listed = ", ".join(str(step) for step in reached[:MOST_NAMED])
    advanced = all(earlier < later for earlier, later in pairwise(reached))
    return f"{how}, at steps {listed}: " + ("it advanced between them" if advanced else "at no fixed one")


def _reason(file: str, first: int, last: int, facts: Facts, tracebacks: Sequence[Spoken]) -> str:
    """The first that tells why a start ended: an own error, a line that is a cause by itself, or an exit status."""
    by_line = [
        (traceback.told.traceback.first_line, f"{traceback.first.type} at {traceback.first.file}:{traceback.first.at}")
        for traceback in tracebacks
        if traceback.told.at.file == file
        and traceback.kind == "own"
        and first < traceback.told.traceback.first_line < last
    ]
    by_line += [
        (event.at.line, event.symptom.cause)
        for event in facts.events
        if event.at.file == file and event.symptom.role == "cause" and first < event.at.line < last
    ]
    by_line += [
        (
            ended.at.line,
            f"exit status {ended.exit.exitcode}" + (f" of rank {ended.rank}" if ended.rank is not None else ""),
        )
        for ended in facts.exits
        if ended.at.file == file and ended.exit.exitcode not in (None, 0, -15) and first < ended.at.line < last
    ]
    return min(by_line)[1] if by_line else ""


def _last_step(end: Sequence[tuple[int, str]], first: int, last: int) -> int | None:
    steps = [int(step["step"]) for number, text in end if first < number < last for step in STEP.finditer(text[:300])]
    return steps[-1] if steps else None
