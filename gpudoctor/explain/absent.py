"""Ranks of which logs do not speak: between others, by another one's word, or since others' time was up."""

import re

from gpudoctor.explain.order import Facts

LONGEST_LIST = 500
TIME_OUT, SIGNAL = "watchdog-timeout", "watchdog-dump-signal"
LAUNCHER = "elastic-"
"""What torchrun says of a rank, which that one need not live for."""


def skipped(known: set[int], *, of_whole_job: bool) -> set[int]:
    """Ranks between others of which nothing is heard, and rank 0 below rank 1: they are there, for numbers have no
    gaps.

    Where a third of them or more would be missing, the logs are rather those of a part of the world: of some nodes, or
    of one process group with every second rank. In a group of all ranks it may be half.
    """
    if not known or max(known) - min(known) > 65_536:
        return set()
    first = 0 if min(known) == 1 else min(known)  # they are counted from 0
    between = set(range(first, max(known))) - known
    return between if len(between) * (2 if of_whole_job else 3) <= len(known) else set()


def missing(facts: Facts, waiting: set[int]) -> set[int]:
    """Ranks of which is known that they are there, and which do not wait with the others."""
    known = set(range(facts.world_size)) if facts.world_size else facts.ranks | counted_by_program(facts)
    return known - waiting


def absent_by_name(facts: Facts) -> set[int]:
    """Ranks of which another one says that they did not come (a monitored barrier's message)."""
    return {
        int(number)
        for event in facts.events
        if event.symptom.role == "consequence"
        for number in re.findall(r"\d{1,7}", event.values.get("ranks", "")[:LONGEST_LIST])
    }


def counted_by_program(facts: Facts) -> set[int]:
    """Ranks that the program's own lines begin with ("rank 2 step 4"), where these are numbers of all from 0 on."""
    own = facts.own_ranks
    return own if len(own) > 1 and own == set(range(len(own))) else set()


def silent(facts: Facts, ranks: set[int]) -> set[int]:
    """Those that have said nothing since another one's time was up, though all that live were asked for recorders.

    torch's heartbeat thread looks for that in the store every second and says so, whatever the program does meanwhile,
    also where it holds the interpreter: who does not is dead, stopped, or had ended."""
    over = [event.moment for event in facts.events if event.symptom.id == TIME_OUT]
    if not over or not any(event.symptom.id == SIGNAL for event in facts.events):
        return set()
    asked = {event.rank for event in facts.events if event.symptom.id == SIGNAL}  # its line may come first
    told = (*(event for event in facts.events if not event.symptom.id.startswith(LAUNCHER)), *facts.tracebacks)
    return ranks - asked - {line.rank for line in told if not any(line.moment.is_before(each) for each in over)}


def idle_ranks(facts: Facts) -> set[int]:
    """Ranks that had no collective open when they were asked for their recorders; by the first time that they were."""
    idle: dict[int, bool] = {}
    for event in facts.events:
        launched, completed = event.values.get("last_enqueued"), event.values.get("last_completed")
        if event.symptom.id == SIGNAL and event.rank is not None and launched and completed:
            idle.setdefault(event.rank, launched == completed)
    return {rank for rank, none_open in idle.items() if none_open}


def launched_when_asked(facts: Facts) -> dict[int, int]:
    """How many collectives each rank had launched when it was first asked for its recorder, as far as it said so."""
    launched: dict[int, int] = {}
    for event in facts.events:
        number = event.values.get("last_enqueued", "")
        if event.symptom.id == SIGNAL and event.rank is not None and number.isdecimal() and len(number) < 19:
            launched.setdefault(event.rank, int(number))
    return launched
