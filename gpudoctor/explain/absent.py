"""Ranks of which logs do not speak: between others, by another one's word, or since others' time was up."""

import re

from gpudoctor.explain.order import Facts

LONGEST_LIST = 500
TIME_OUT, SIGNAL = "watchdog-timeout", "watchdog-dump-signal"


def skipped(known: set[int], *, of_whole_job: bool) -> set[int]:
    """Ranks between others of which nothing is heard: they are there, for numbers have no gaps.

    Where a third of them or more would be missing, the logs are rather those of a part of the world: of some nodes, or
    of one process group with every second rank. In a group of all ranks it may be half.
    """
    if not known or max(known) - min(known) > 65_536:
        return set()
    between = set(range(min(known), max(known))) - known
    return between if len(between) * (2 if of_whole_job else 3) <= len(known) else set()


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
    speak = {event.rank for event in facts.events if not any(event.moment.is_before(moment) for moment in over)}
    return ranks - speak
