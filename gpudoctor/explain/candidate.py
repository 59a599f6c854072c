"""What may be the cause: one of `causes.CAUSES`, with what speaks for it."""

from typing import Literal

from msgspec import Struct, field, structs

from gpudoctor.cause import Judged
from gpudoctor.causes import CAUSES
from gpudoctor.explain.endings import ending_of
from gpudoctor.explain.kinds import ROUTE
from gpudoctor.explain.own_fixes import by_line, by_values
from gpudoctor.explain.own_words import unset_variable
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import Event, Moment
from gpudoctor.lazy import lazy_re
from gpudoctor.remedies import remedy_for, remedy_of_line
from gpudoctor.symptom import UNSAID

Standing = Literal["cause", "pattern", "connection", "consequence"]
"""cause: a line says it. pattern: several ranks' lines say it together. connection and consequence as in `Role`."""
STANDINGS: tuple[Standing, ...] = ("cause", "pattern", "connection", "consequence")
SURE = 0.6
"""From here on an earlier candidate stays before a later one that is surer (our rule of thumb)."""
SURER = 0.35
"""What is left of the doubt when another symptom, or the same on another rank, speaks for the cause too: our choice."""
MOST_EVIDENCE = 8
DIED_OF = lazy_re(r"\bdied of (?P<type>[\w.]{1,200})")
NO_ROUTE = "No route to host"
"""EHOSTUNREACH: nobody has that address there, or a firewall says so in place of the node."""
NO_MORE = frozenset(
    {
        ("library-missing", "environment"),
        ("library-missing", "program"),
        ("container-not-started", "sandbox"),
        ("scheduler-refused", "controller"),
        ("program-error", "arguments"),
    }
)
"""Of a speaker's line of any content: what it quotes may be known better."""
LOOSE = frozenset({("program-error", "hydra")})
"""Of a speaker's messages of any content: what one of them says may be known better."""
GENERAL = frozenset({"", "assertion", "bus"})
"""Variants that tell only what every line of their cause does."""
OF_A_RANK = frozenset({"rank-died"})
"""Of which the line that names the rank is told before one that does not."""
SOME_RANK = "a rank "
"""With which a symptom's words begin; which one it is may be known."""
OF_ANOTHER = frozenset({"store-host-exit"})
"""Told by those whom the culprit has left behind."""
LIVED_ON = 0.4
"""What is left of the confidence of what the program lived through: it may still explain what came of it."""


class Candidate(Struct, frozen=True, kw_only=True):
    cause: str
    variant: str = ""
    """Which of the cause's fixes fits."""
    values: dict[str, str] = field(default_factory=dict)
    """For the fix's text."""
    confidence: float
    standing: Standing
    moment: Moment
    """The first line that speaks for it."""
    summary: str
    ranks: tuple[int, ...] = ()
    evidence: tuple[Line, ...] = ()
    confirm: str = ""
    judged: Judged | None = None
    """Class, blame and restart, where they are not those of the cause and variant."""
    hosts: tuple[str, ...] = ()
    """Nodes that the lines name, whose fault it is."""


def of_symptom(event: Event, *, standing: Standing, share: float = 1.0) -> Candidate:
    """What one line says by itself. `share`: what is left of the symptom's confidence."""
    symptom, values = event.symptom, event.values
    cause, variant, confidence = symptom.cause, symptom.variant, symptom.confidence
    if not variant or (cause, variant) in LOOSE:
        type_name, _, message = event.at.text.strip().rpartition("Error: ")
        remedied = remedy_for(f"{type_name.rpartition(' ')[2]}Error", message)
        if remedied is not None and remedied[0].id in CAUSES[cause].variants:
            variant, values = remedied[0].id, {**remedied[1], **values}
    if (cause, variant) in NO_MORE and (known := remedy_of_line(event.at.text)) and known[0].judged:
        cause, variant, values = "program-error", known[0].id, {**known[1], **values}
    if cause == "rank-died" and (ending := ending_of(values)) is not None:
        confidence = ending.confidence if event.of_the_end else min(ending.confidence, confidence)
        cause, variant = ending.cause, ending.variant
    variant, more = by_values(cause, by_line(cause, variant, event.at.text), values)
    if (cause, variant) in LOOSE and (variable := unset_variable(event.at.text)):
        variant, more = "no-variable", variable
    judged = ROUTE if cause == "firewall-ephemeral-ports" and NO_ROUTE in values.get("errno", "") else None
    if event.lived_on:
        share *= LIVED_ON
    if event.rank is not None:
        values = {"rank": str(event.rank), **values}
    return Candidate(
        cause=cause,
        variant=variant,
        values={**values, **more},
        confidence=share * confidence,
        standing=standing,
        moment=event.moment,
        judged=judged,
        summary=symptom.said(values),
        ranks=() if event.rank is None or cause in OF_ANOTHER else (event.rank,),
        evidence=(event.at, *event.after),
        hosts=(host,) if (host := values.get("host") or event.host) else (),
    )


def merged(candidates: list[Candidate]) -> list[Candidate]:
    """One candidate a cause. Its words are those of the surest that came first; each that adds something adds to it."""
    by_cause: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_cause.setdefault(candidate.cause, []).append(candidate)
    return [_merged(same) for same in by_cause.values()]


def _merged(same: list[Candidate]) -> Candidate:
    ordered = in_order(same)
    first = ordered[0]
    alike = [candidate for candidate in ordered if candidate.standing == first.standing]
    kinds = {candidate.summary for candidate in alike}
    ranks = {rank for candidate in alike for rank in candidate.ranks}
    # time-outs of several ranks are one fact, seen from several sides
    unsaid = first.standing == "consequence" or first.variant == "silent"
    unsaid |= first.standing == "pattern" and len(alike) == 1  # where they all stand is one, however many they are
    more = 0 if unsaid else min(3, max(len(kinds), len(ranks)) - 1)
    doubt = (1.0 - max(candidate.confidence for candidate in same)) * (SURER if more > 0 else 1.0)
    if more > 1:
        doubt *= 0.8
    by_kind = sorted(alike, key=lambda candidate: not _of_one_kind(first, candidate))
    lines = dict.fromkeys(line for candidate in by_kind for line in candidate.evidence)
    worded = next((candidate for candidate in alike if UNSAID not in candidate.summary), first)
    told = next((candidate for candidate in alike if candidate.variant not in GENERAL), first)
    if first.variant in GENERAL and told is not first and told.ranks in ((), first.ranks) and _of_one_kind(first, told):
        # one of them tells more of what to do
        first = structs.replace(first, variant=told.variant, values={**told.values, **first.values})
        is_before = first.standing == "connection" and told.moment.is_before(first.moment)
        if is_before and UNSAID not in told.summary:  # what sums it up came behind it
            first = structs.replace(first, summary=told.summary)
    if not first.ranks and len(ranks) == 1 and first.cause in OF_A_RANK:
        named = next(candidate for candidate in alike if candidate.ranks)
        first = structs.replace(first, summary=named.summary, ranks=named.ranks)
    if UNSAID in first.summary and worded.confidence >= first.confidence - 0.2:
        first = structs.replace(first, summary=worded.summary)
    of_ranks = tuple(sorted(ranks)) if len(kinds) == 1 else (first.ranks or tuple(sorted(ranks)))
    said = first.summary
    if len(of_ranks) == 1 and said.startswith(SOME_RANK):
        said = f"rank {of_ranks[0]} {said.removeprefix(SOME_RANK)}"
    return structs.replace(
        first,
        summary=said,
        confidence=round(min(0.99, 1.0 - doubt), 2),
        hosts=tuple(dict.fromkeys(host for candidate in alike for host in candidate.hosts)),
        ranks=of_ranks,
        evidence=tuple(lines)[:MOST_EVIDENCE],
    )


def _of_one_kind(one: Candidate, other: Candidate) -> bool:
    """They do not tell of two exceptions: what is to be done about one says nothing of the other."""
    types = [DIED_OF.search(each.summary) for each in (one, other)]
    return None in types or len({found["type"] for found in types if found}) == 1


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
