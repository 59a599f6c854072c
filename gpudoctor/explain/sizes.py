"""What ranks printed of themselves, compared: sizes of the tensor that they exchange, numbers of batches."""

import re

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.order import Facts
from gpudoctor.explain.scan import Event
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import HINT, LIKELY

EXCHANGED = lazy_re(
    r"all[_ -]?reduce|all[_ -]?gather|broadcast|reduce[_ -]?scatter|\breduce\b|all[_ -]?to[_ -]?all|collective",
    re.IGNORECASE,
)
NUMBERS = lazy_re(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def printed_sizes(facts: Facts, *, failed: bool) -> list[Candidate]:
    """The same statement printed different sizes on several ranks, and something failed or a rank never got past it."""
    statements: dict[str, dict[int, Event]] = {}
    for event in facts.events:
        if event.symptom.id == "tensor-size-told" and event.rank is not None and EXCHANGED.search(event.at.text):
            key = NUMBERS.sub("#", event.at.text.partition("torch.Size")[0])
            statements.setdefault(key, {}).setdefault(event.rank, event)
    return [
        _candidate("shape-mismatch", LIKELY, by_rank, "size", "a tensor of [{}] to the collective", "hands")
        for text, by_rank in statements.items()
        if _differ(by_rank, "size") and (failed or _not_past(text, by_rank, statements))
    ]


def printed_batches(facts: Facts) -> list[Candidate]:
    """Ranks printed different numbers of batches, where something failed. Samplers of different seeds are a reason for
    that where batches are made by length."""
    by_rank: dict[int, Event] = {}
    for event in facts.events:
        if event.symptom.id == "batches-told" and event.rank is not None:
            by_rank.setdefault(event.rank, event)
    if not _differ(by_rank, "batches"):
        return []
    return [
        _candidate(cause, confidence, by_rank, "batches", "{} batches", "has")
        for cause, confidence in (("uneven-inputs", LIKELY), ("sampler-seed-mismatch", HINT))
    ]


def _differ(by_rank: dict[int, Event], name: str) -> bool:
    return len({event.values.get(name, "") for event in by_rank.values()}) > 1


def _candidate(cause: str, confidence: float, by_rank: dict[int, Event], name: str, words: str, verb: str) -> Candidate:
    """The few that have another value than most are the culprits."""
    ranks_of: dict[str, list[int]] = {}
    for rank, event in by_rank.items():
        ranks_of.setdefault(event.values.get(name, ""), []).append(rank)
    few, many = (
        min(ranks_of.items(), key=lambda item: (len(item[1]), item[1])),
        max(ranks_of.items(), key=lambda item: (len(item[1]), -min(item[1]))),
    )
    one, other = by_rank[min(few[1])], by_rank[min(many[1])]
    return Candidate(
        cause=cause,
        confidence=confidence,
        standing="pattern",
        moment=one.moment,
        summary=f"rank {one.rank} {verb} {words.format(few[0])}, rank {other.rank} {words.format(many[0])}",
        ranks=tuple(sorted(few[1])),
        evidence=(one.at, other.at),
    )


def _not_past(text: str, by_rank: dict[int, Event], statements: dict[str, dict[int, Event]]) -> bool:
    """Of the ranks that said "before", some never said "after"."""
    after = statements.get(text.replace("before", "after")) if "before" in text else None
    return "before" in text and set(after or ()) != set(by_rank)
