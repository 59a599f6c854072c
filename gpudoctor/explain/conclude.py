"""Facts of the logs -> the first cause, what else it may be, and what only follows."""

from collections import Counter

from msgspec import Struct, structs

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.explain.candidate import SURE, Candidate, in_order, merged, of_symptom
from gpudoctor.explain.deaths import AFTERWARDS, Spoken, own_errors, ranks_text, signals, spoken
from gpudoctor.explain.members import membership
from gpudoctor.explain.order import Facts, Moment, Shown
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.sizes import printed_sizes
from gpudoctor.explain.waits import Wait, pattern, places, waits
from gpudoctor.knowledge.wording import counted

MOST_CAUSES = 5
MOST_CONSEQUENCES = 12
MOST_STORY = 12
UNDECIDED = 0.5
"""A first cause that is less likely than this is called undecided."""
BEHIND = 0.75
"""What is left of an alternative's confidence that came later than a sure first cause: it may follow from it."""
PROMOTED = 0.7
"""What is left of the confidence of something that is no fault by itself, when something failed."""
CONNECTIONS = 0.75
"""What is left of that of a failed connection: the other end may have died."""
FOLLOWS = 0.6
"""What is left of that of a consequence: another cause may have it too."""
WEAK = 0.4
"""A cause of a lower confidence is named only where something failed."""


class Conclusion(Struct, frozen=True, kw_only=True):
    causes: tuple[LogCause, ...]
    unknown: str | None
    consequences: tuple[Line, ...]
    story: tuple[Line, ...]


def conclude(facts: Facts) -> Conclusion:
    """The first cause by role, then by what came first, then by confidence; alternatives behind it."""
    tracebacks = spoken(facts)
    failed = _something_failed(facts, tracebacks)
    candidates = [
        of_symptom(shown, standing="cause")
        for shown in facts.shown
        if shown.symptom.role == "cause" and shown.symptom.cause and (failed or shown.symptom.confidence >= WEAK)
    ]
    candidates += own_errors(tracebacks, facts, failed=failed)
    candidates += signals(facts, tracebacks)
    died = {rank for each in candidates if each.standing == "cause" for rank in each.ranks}
    waiting = waits(facts, tracebacks)
    if not any(each.standing == "cause" and each.confidence >= SURE for each in candidates):
        candidates += pattern(waiting, facts, died)
    candidates += membership(facts)
    candidates += printed_sizes(facts, failed=failed)
    if failed:
        candidates += [
            of_symptom(shown, standing="pattern", confidence=PROMOTED * shown.symptom.confidence)
            for shown in facts.shown
            if shown.symptom.role == "context" and shown.symptom.cause
        ]
    later = [shown for shown in facts.shown if shown.symptom.role in ("connection", "consequence")]
    candidates += [
        of_symptom(
            shown,
            standing="connection" if shown.symptom.role == "connection" else "consequence",
            confidence=(CONNECTIONS if shown.symptom.role == "connection" else FOLLOWS) * shown.symptom.confidence,
        )
        for shown in later
        if shown.symptom.cause
    ]
    ordered = in_order(merged(candidates))
    if ordered and ordered[0].standing in ("cause", "pattern") and ordered[0].confidence >= SURE:
        # what a connection or a time-out says is explained by a cause that is sure
        ordered = [each for each in ordered if each.standing in ("cause", "pattern")]
        ordered = [ordered[0], *(_behind(each, ordered[0]) for each in ordered[1:])]
    causes = tuple(_published(each) for each in _descending(ordered[:MOST_CAUSES]))
    unknown = None
    if failed and (not causes or causes[0].confidence < UNDECIDED):
        unknown = _unknown(facts, tracebacks, _waited(causes, waiting))
    cited = {line for cause in causes[:1] for line in cause.evidence}
    consequences = _consequences(later, tracebacks, cited)
    return Conclusion(
        causes=causes,
        unknown=unknown,
        consequences=consequences if causes else (),
        story=_story(facts, tracebacks) if causes or unknown else (),
    )


def _descending(ordered: list[Candidate]) -> list[Candidate]:
    """No alternative is called surer than what stands before it: the order says more than one line's confidence."""
    least, found = 1.0, []
    for each in ordered:
        least = min(least, each.confidence)
        found.append(structs.replace(each, confidence=round(least, 2)))
    return found


def _waited(causes: tuple[LogCause, ...], waiting: list[Wait]) -> str:
    """Who waited, and for whom where that is known."""
    told = next((cause.summary for cause in causes if "did not come" in cause.summary), "")
    return told if waiting and told else places(waiting)


def _behind(candidate: Candidate, first: Candidate) -> Candidate:
    later = first.moment.is_before(candidate.moment)
    confidence = min(candidate.confidence * (BEHIND if later else 1.0), first.confidence - 0.01)
    return structs.replace(candidate, confidence=round(max(0.01, confidence), 2))


def _something_failed(facts: Facts, tracebacks: list[Spoken]) -> bool:
    return (
        any(ended.exit.exitcode not in (None, 0) for ended in facts.exits)
        or any(shown.symptom.role == "consequence" for shown in facts.shown)
        or any(shown.symptom.role == "connection" for shown in facts.shown)
        or any(each.kind != "asked" and each.told.lines_after <= AFTERWARDS for each in tracebacks)
    )


def _published(candidate: Candidate) -> LogCause:
    known = CAUSES.get(candidate.cause)
    return LogCause(
        cause=candidate.cause,
        confidence=candidate.confidence,
        ranks=candidate.ranks,
        evidence=candidate.evidence,
        summary=candidate.summary,
        meaning=candidate.meaning or (known.meaning if known else ""),
        fix=Fix(
            candidate.fix or (known.fix.text if known else ""),
            candidate.commands or (known.fix.commands if known and not candidate.fix else ()),
        ),
        confirm=candidate.confirm or (known.confirm if known else ""),
    )


def _consequences(later: list[Shown], tracebacks: list[Spoken], cited: set[Line]) -> tuple[Line, ...]:
    """One line of each kind, the first."""
    lines: dict[str, Line] = {}
    for shown in later:
        event = shown.event
        lines.setdefault(shown.symptom.id, Line(event.file, event.line, event.text))
    for each in tracebacks:
        if each.kind in ("consequence", "communication") and not each.shown:
            lines.setdefault(each.last.type, each.line)
    return tuple(line for line in lines.values() if line not in cited)[:MOST_CONSEQUENCES]


def _story(facts: Facts, tracebacks: list[Spoken]) -> tuple[Line, ...]:
    """The first line of each kind, in order."""
    first: dict[tuple[str, int | None], tuple[Moment, Line]] = {}
    for shown in facts.shown:
        if shown.symptom.role == "context" and not shown.symptom.cause:
            continue
        event = shown.event
        moment = Moment(event.file, event.line, event.time)
        first.setdefault((shown.symptom.id, None), (moment, Line(event.file, event.line, event.text)))
    for each in tracebacks:
        if not each.shown:
            first.setdefault((each.last.type, each.told.rank), (each.moment, each.line))
    for ended in facts.exits:
        if ended.exit.exitcode not in (None, 0):
            moment = Moment(ended.file, ended.exit.line, ended.time)
            line = Line(ended.file, ended.exit.line, ended.exit.text)
            first.setdefault((f"exit {ended.exit.exitcode}", None), (moment, line))
    ordered = sorted(first.values(), key=lambda each: (each[0].time or 0.0, each[0].file, each[0].line))
    return tuple(dict.fromkeys(line for _, line in ordered))[:MOST_STORY]


def _unknown(facts: Facts, tracebacks: list[Spoken], waited: str) -> str:
    """What failed, where nobody can say why."""
    if waited:
        return f"{waited}; why, these logs do not say"
    codes = Counter(ended.exit.exitcode for ended in facts.exits if ended.exit.exitcode not in (None, 0, -15))
    if codes:
        ranks = {ended.rank for ended in facts.exits if ended.exit.exitcode in codes and ended.rank is not None}
        who = ranks_text(ranks) if ranks else counted(sum(codes.values()), "process", "processes")
        status = ", ".join(sorted(f"{code}" for code in codes))
        return f"{who} ended with exit status {status}, and no line before says why"
    if tracebacks:
        return f"{tracebacks[0].told.text}: its cause is not known"
    later = next((shown for shown in facts.shown if shown.symptom.role in ("consequence", "connection")), None)
    if later is None:
        return "something failed, and no line says why"
    return f"{of_symptom(later, standing='consequence').summary}; what failed before it, these logs do not say"
