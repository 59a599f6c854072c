"""Sizes that ranks printed of the tensor that they exchange: where they differ and the exchange never ends."""

import re

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.order import Facts, Moment, Shown
from gpudoctor.explain.report import Line

EXCHANGED = re.compile(
    r"all[_ -]?reduce|all[_ -]?gather|broadcast|reduce[_ -]?scatter|\breduce\b|all[_ -]?to[_ -]?all|collective",
    re.IGNORECASE,
)
NUMBERS = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def printed_sizes(facts: Facts, *, failed: bool) -> list[Candidate]:
    """The same statement printed different sizes on several ranks, and something failed or a rank never got past it."""
    statements: dict[str, dict[int, Shown]] = {}
    for shown in facts.shown:
        event = shown.event
        if event.symptom == "engine-tensor-size" and event.rank is not None and EXCHANGED.search(event.text):
            key = NUMBERS.sub("#", event.text.partition("torch.Size")[0])
            statements.setdefault(key, {}).setdefault(event.rank, shown)
    found: list[Candidate] = []
    for text, by_rank in statements.items():
        sizes: dict[str, list[int]] = {}
        for rank, shown in by_rank.items():
            sizes.setdefault(shown.event.values.get("size", ""), []).append(rank)
        if len(sizes) < 2 or not (failed or _not_past(text, by_rank, statements)):
            continue
        few, many = (
            min(sizes.items(), key=lambda each: (len(each[1]), each[1])),
            max(sizes.items(), key=lambda each: (len(each[1]), -min(each[1]))),
        )
        one, other = by_rank[min(few[1])].event, by_rank[min(many[1])].event
        found.append(
            Candidate(
                cause="shape-mismatch",
                confidence=0.7,
                standing="pattern",
                moment=Moment(one.file, one.line, one.time),
                summary=f"rank {one.rank} hands a tensor of [{few[0]}] to the collective, rank {other.rank} one of "
                f"[{many[0]}]",
                ranks=tuple(sorted(few[1])),
                evidence=tuple(Line(event.file, event.line, event.text) for event in (one, other)),
            )
        )
    return found


def _not_past(text: str, by_rank: dict[int, Shown], statements: dict[str, dict[int, Shown]]) -> bool:
    """Of the ranks that said "before", some never said "after"."""
    after = statements.get(text.replace("before", "after")) if "before" in text else None
    return "before" in text and set(after or ()) != set(by_rank)
