"""What may be the cause: one of the taxonomy's, with what speaks for it."""

from collections import defaultdict
from typing import Literal

from msgspec import Struct, structs

from gpudoctor.command import Command
from gpudoctor.explain.order import Moment, Shown
from gpudoctor.explain.report import Line

Standing = Literal["cause", "pattern", "connection", "consequence"]
"""cause: a line says it. pattern: several ranks' lines say it together. connection and consequence as in `Role`."""
STANDINGS: tuple[Standing, ...] = ("cause", "pattern", "connection", "consequence")
SURE = 0.6
"""From here on an earlier candidate stays before a later one that is surer (our rule of thumb)."""
SURER = 0.35
"""What is left of the doubt when another symptom, or the same on another rank, speaks for the cause too: our choice."""
MOST_EVIDENCE = 8
UNSAID = "?"
"""For a value that the line does not tell."""


class Candidate(Struct, frozen=True, kw_only=True):
    cause: str
    confidence: float
    standing: Standing
    moment: Moment
    """The first line that speaks for it."""
    summary: str
    ranks: tuple[int, ...] = ()
    evidence: tuple[Line, ...] = ()
    fix: str = ""
    commands: tuple[Command, ...] = ()
    confirm: str = ""
    meaning: str = ""


def of_symptom(shown: Shown, *, standing: Standing, confidence: float | None = None) -> Candidate:
    """What one line says by itself."""
    event, symptom = shown.event, shown.symptom
    values = defaultdict(lambda: UNSAID, event.values)
    if event.rank is not None:
        values.setdefault("rank", str(event.rank))
    return Candidate(
        cause=symptom.cause,
        confidence=symptom.confidence if confidence is None else confidence,
        standing=standing,
        moment=Moment(event.file, event.line, event.time),
        summary=filled(symptom.seen, values),
        ranks=() if event.rank is None else (event.rank,),
        evidence=(Line(event.file, event.line, event.text),),
        fix=filled(symptom.fix, values),
        commands=symptom.commands,
    )


def filled(text: str, values: dict[str, str]) -> str:
    """A text with the values of a line; as it stands where it has braces of another kind."""
    try:
        return text.format_map(values)
    except (ValueError, IndexError, AttributeError, KeyError, TypeError):
        return text


def merged(candidates: list[Candidate]) -> list[Candidate]:
    """One candidate a cause. Its words are those of the surest that came first; each that adds something adds to it."""
    by_cause: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_cause.setdefault(candidate.cause, []).append(candidate)
    return [_merged(each) for each in by_cause.values()]


def _merged(same: list[Candidate]) -> Candidate:
    ordered = in_order(same)
    first = ordered[0]
    alike = [candidate for candidate in ordered if candidate.standing == first.standing]
    kinds = {candidate.summary for candidate in alike}
    ranks = {rank for candidate in alike for rank in candidate.ranks}
    # time-outs of several ranks are one fact, seen from several sides
    more = 0 if first.standing == "consequence" else min(3, max(len(kinds), len(ranks)) - 1)
    doubt = (1.0 - max(candidate.confidence for candidate in same)) * (SURER if more > 0 else 1.0)
    if more > 1:
        doubt *= 0.8
    lines = dict.fromkeys(line for candidate in alike for line in candidate.evidence)
    worded = next((each for each in alike if UNSAID not in each.summary), first)
    if UNSAID in first.summary and worded.confidence >= first.confidence - 0.2:
        first = structs.replace(first, summary=worded.summary)
    return Candidate(
        cause=first.cause,
        confidence=round(min(0.99, 1.0 - doubt), 2),
        standing=first.standing,
        moment=first.moment,
        summary=first.summary,
        ranks=tuple(sorted(ranks)) if len(kinds) == 1 else (first.ranks or tuple(sorted(ranks))),
        evidence=tuple(lines)[:MOST_EVIDENCE],
        fix=first.fix,
        commands=first.commands,
        confirm=first.confirm,
        meaning=first.meaning,
    )


def in_order(candidates: list[Candidate]) -> list[Candidate]:
    """Best first: by standing, then sure ones before doubtful ones, then what came first, then confidence."""

    def level(candidate: Candidate) -> tuple[int, bool]:
        return min(1, max(0, STANDINGS.index(candidate.standing) - 1)), candidate.confidence < SURE

    earlier: dict[int, int] = {}
    if len(candidates) <= 500:
        earlier = {
            number: sum(other.moment.is_before(each.moment) for other in candidates if level(other) == level(each))
            for number, each in enumerate(candidates)
        }
    by_number = sorted(
        range(len(candidates)),
        key=lambda number: (
            level(candidates[number]),
            earlier.get(number, 0) if candidates[number].confidence >= SURE else 0,
            -candidates[number].confidence,
            candidates[number].moment.time or 0.0,
            candidates[number].moment.line,
        ),
    )
    return [candidates[number] for number in by_number]
