"""Which ranks have announced themselves, against the world that they expect: Lightning's "MEMBER: n/N" lines."""

from collections import Counter

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.order import Facts, Moment, Shown
from gpudoctor.explain.report import Line
from gpudoctor.knowledge.wording import counted, ranges

MOST_LINES = 4
MOST_BEHIND = 30
"""Lines after the last rank that announced itself."""


def membership(facts: Facts) -> list[Candidate]:
    """A rank that announces itself twice while others never do; one rank alone."""
    announced = [shown for shown in facts.shown if shown.event.symptom == "engine-member"]
    if not announced or any(shown.event.symptom == "engine-all-registered" for shown in facts.shown):
        return []
    size = max(int(shown.event.values["world_size"]) for shown in announced)
    times = Counter(shown.event.rank for shown in announced if shown.event.rank is not None)
    missing = [rank for rank in range(min(size, 4096)) if rank not in times]
    if not missing or _went_on(facts, announced):
        return []
    lines = tuple(Line(each.event.file, each.event.line, each.event.text) for each in announced[:MOST_LINES])
    first = announced[0].event
    moment = Moment(first.file, first.line, first.time)
    twice = sorted(rank for rank, count in times.items() if count > 1)
    if twice and min(times.values()) > 1:  # every rank that there is: several starts of the same part of the world
        return [
            Candidate(
                cause="launcher-world-mismatch",
                confidence=0.85,
                standing="pattern",
                moment=moment,
                summary=f"{_ranks(twice)} announced {'itself' if len(twice) == 1 else 'themselves'} "
                f"{counted(min(times.values()), 'time')}, and {_ranks(missing)} of world size {size} never did",
                ranks=tuple(twice),
                evidence=lines,
                meaning="Each node, or each task, numbers its own processes from 0: they wait for ranks that nobody "
                "started.",
            )
        ]
    if len(times) == 1 and size > 1:
        rank = next(iter(times)) or 0
        return [
            Candidate(
                cause="local-rank-preset",
                confidence=0.65,
                standing="pattern",
                moment=moment,
                summary=f"Only rank {rank} of world size {size} announced itself: no other process was started",
                ranks=(rank,),
                evidence=lines,
            ),
            Candidate(
                cause="launcher-world-mismatch",
                confidence=0.35,
                standing="pattern",
                moment=moment,
                summary=f"Only rank {rank} of world size {size} was started",
                ranks=(rank,),
                evidence=lines,
            ),
        ]
    return [
        Candidate(
            cause="launcher-world-mismatch",
            confidence=0.5,
            standing="pattern",
            moment=moment,
            summary=f"{_ranks(missing)} of world size {size} never announced "
            f"{'itself' if len(missing) == 1 else 'themselves'}",
            ranks=tuple(missing),
            evidence=lines,
        )
    ]


def _went_on(facts: Facts, announced: list[Shown]) -> bool:
    """The job went on: not all ranks print their line into the logs at hand. A world that is not complete prints next
    to nothing (our rule of thumb)."""
    last = max(announced, key=lambda shown: shown.event.line).event
    behind = facts.lines.get(last.file, 0) - last.line
    return behind > MOST_BEHIND and not any(shown.symptom.role == "consequence" for shown in facts.shown)


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ranges(ranks)
