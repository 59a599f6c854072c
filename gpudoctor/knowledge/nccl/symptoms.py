"""Which known symptoms a log of NCCL or torch shows, the most decisive first."""

from collections import defaultdict
from collections.abc import Iterator

from gpudoctor.knowledge.nccl.symptom import WEIGHTS, Rule, Symptom
from gpudoctor.knowledge.nccl.symptoms_connecting import CONNECTING
from gpudoctor.knowledge.nccl.symptoms_machine import MACHINE
from gpudoctor.knowledge.nccl.symptoms_rdma import RDMA

TABLE: tuple[Rule, ...] = (*MACHINE, *CONNECTING, *RDMA)
MOST_CHARACTERS = 1024
"""Of a line that is looked at, before and behind the words that were found; NCCL's own buffer (debug.cc)."""
MOST_RECORDS = 10_000
"""Of one entry; a log that repeats itself more often is counted so far."""


def symptoms(text: str) -> tuple[Symptom, ...]:
    """Every entry of the table that the text shows, once each: causes first, consequences behind them.

    Within a weight, what stands earlier in the log comes first. Never raises; linear in the length of the text.
    """
    found = [
        (WEIGHTS.index(rule.weight), where, symptom) for rule in TABLE for where, symptom in _looked_for(rule, text)
    ]
    return tuple(symptom for _, _, symptom in sorted(found, key=lambda each: each[:2]))


def _looked_for(rule: Rule, text: str) -> Iterator[tuple[int, Symptom]]:
    """The first record that the entry is about, with its place, and how many there are."""
    first: tuple[int, str, dict[str, str]] | None = None
    count = 0
    for where, line in _lines(text, rule.needles):
        values = rule.match(line)
        if values is None:
            continue
        count += 1
        if first is None:
            first = where, line, values
    if first is not None:
        where, line, values = first
        yield where, _symptom(rule, line, values, count)


def _symptom(rule: Rule, line: str, values: dict[str, str], count: int) -> Symptom:
    known = defaultdict(lambda: "?", values)
    return Symptom(
        id=rule.id,
        weight=rule.weight,
        seen=rule.seen.format_map(known),
        cause=rule.cause.format_map(known),
        fix=rule.fix.format_map(known),
        commands=rule.commands,
        values=values,
        line=_message(line),
        count=count,
        versions=rule.versions,
        source=rule.source,
    )


def _message(line: str) -> str:
    """The record without host, process and file."""
    for mark in (" NCCL WARN ", " NCCL INFO "):
        _, found, message = line.rpartition(mark)
        if found:
            return message.strip()
    return line.strip()


def _lines(text: str, needles: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """The lines that hold one of the needles, each once, with their place in the text."""
    seen: set[int] = set()
    for needle in needles:
        place, looked_at = 0, 0
        while looked_at < MOST_RECORDS and (at := text.find(needle, place)) >= 0:
            start = max(text.rfind("\n", max(place, at - MOST_CHARACTERS), at) + 1, at - MOST_CHARACTERS, place)
            end = text.find("\n", at, at + MOST_CHARACTERS)
            end = min(len(text), at + MOST_CHARACTERS) if end < 0 else end
            if start not in seen:
                seen.add(start)
                yield start, text[start:end]
            place, looked_at = end, looked_at + 1
