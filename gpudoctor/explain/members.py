"""Which ranks have announced themselves, against the world that they expect: Lightning's "MEMBER: n/N" lines."""

from collections import Counter

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import ranks_text
from gpudoctor.explain.order import Facts
from gpudoctor.explain.scan import Event
from gpudoctor.knowledge.wording import counted
from gpudoctor.sure import HINT, LIKELY, SEEN

MOST_LINES = 4
MOST_BEHIND = 30
"""Lines after the last rank that announced itself."""


def membership(facts: Facts) -> list[Candidate]:
    """A rank that announces itself twice while others never do; one rank alone."""
    announced = [event for event in facts.events if event.symptom.id == "lightning-member"]
    if not announced or any(event.symptom.id == "lightning-registered" for event in facts.events):
        return []
    size = max(int(event.values["world_size"]) for event in announced)
    times = Counter(event.rank for event in announced if event.rank is not None)
    missing = [rank for rank in range(min(size, 4096)) if rank not in times]
    if not missing or _went_on(facts, announced):
        return []

    def mismatch(cause: str, confidence: float, summary: str, ranks: list[int], variant: str = "") -> Candidate:
        return Candidate(
            cause=cause,
            variant=variant,
            confidence=confidence,
            standing="pattern",
            moment=announced[0].moment,
            summary=summary,
            ranks=tuple(ranks),
            evidence=tuple(event.at for event in announced[:MOST_LINES]),
        )

    twice = sorted(rank for rank, count in times.items() if count > 1)
    if twice and min(times.values()) > 1:  # every rank that there is: several starts of the same part of the world
        words = (
            f"announced {_self(twice)} {counted(min(times.values()), 'time')}, and {ranks_text(missing)} of world size"
        )
        summary = f"{ranks_text(twice)} {words} {size} never did"
        return [mismatch("launcher-world-mismatch", SEEN, summary, twice, "numbered-alike")]
    if len(times) == 1 and size > 1:
        rank = next(iter(times)) or 0
        alone = f"Only rank {rank} of world size {size}"
        return [
            mismatch("local-rank-preset", LIKELY, f"{alone} announced itself: no other process was started", [rank]),
            mismatch("launcher-world-mismatch", HINT, f"{alone} was started", [rank]),
        ]
    summary = f"{ranks_text(missing)} of world size {size} never announced {_self(missing)}"
    return [mismatch("launcher-world-mismatch", LIKELY, summary, missing)]


def _self(ranks: list[int]) -> str:
    return "itself" if len(ranks) == 1 else "themselves"


def _went_on(facts: Facts, announced: list[Event]) -> bool:
    """The job went on: not all ranks print their line into the logs at hand. A world that is not complete prints next
    to nothing (our rule of thumb)."""
    last = max(announced, key=lambda event: event.at.line).at
    behind = facts.lines.get(last.file, 0) - last.line
    return behind > MOST_BEHIND and not any(event.symptom.role == "consequence" for event in facts.events)
