"""How far each rank's own lines say that it has come, beside how many collectives it has launched by then.

    rank 0 step 7 begins          asked for its recorder, it had launched 6
    rank 1 step 6 begins          waits in number 7

Who is further on in the program and has launched no more than who is behind has left one out, or these have made one
more. Only lines of one form are compared, of which a rank writes one in each round.
"""

import re
from collections.abc import Mapping, Sequence

from gpudoctor.explain.absent import launched_when_asked
from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import ranks_text
from gpudoctor.explain.order import Facts
from gpudoctor.explain.own_lines import OWN_RANK
from gpudoctor.explain.report import Line
from gpudoctor.explain.waits import DEFAULT_GROUP, MOST_LINES, PARTS_OF_ONE, Wait, said
from gpudoctor.lazy import lazy_re
from gpudoctor.sure import HINT, LIKELY, POSSIBLE

COUNTER = lazy_re(
    r"\b(?:step|iter(?:ation)?|batch|update|round)s?\b[\"']?\s{0,3}[:=#]?\s{0,3}(?P<round>\d{1,9})\b", re.I
)
NUMBERS = lazy_re(r"\d+")
FURTHEST = 3
"""Rounds apart of which more are no decision of one of them, but lines that a full buffer has kept (our rule of thumb:
who writes into a pipe or a file without flushing writes 8 KiB at once). Not where those behind have made a collective
in each of their rounds, so that no lines of theirs are missing, and the others go on behind the time-out."""


def rounds_apart(waits: Sequence[Wait], facts: Facts, choices: Sequence[Sequence[Wait]] = ()) -> list[Candidate]:
    """Two parties of unlike rounds, of which the one further on has launched no more collectives than the other.

    `choices`: in which lines of the program they may have waited."""
    if not waits or any(wait.group not in ("", DEFAULT_GROUP) or wait.operation in PARTS_OF_ONE for wait in waits):
        return []
    launched = launched_when_asked(facts)
    launched |= {wait.rank: wait.sequence for wait in waits if wait.sequence is not None}
    rounds = _rounds({rank: facts.said_last[rank] for rank in launched if rank in facts.said_last})
    if len(rounds) < max(2, len(launched)) or len(set(rounds.values())) != 2:
        return []
    low, high = sorted(set(rounds.values()))
    behind = [rank for rank, number in rounds.items() if number == low]
    ahead = [rank for rank, number in rounds.items() if number == high]
    if max(launched[rank] for rank in ahead) > min(launched[rank] for rank in behind):
        return []
    runs_on = facts.gets_on.issuperset(ahead) and all(launched[rank] >= low for rank in behind)
    if high - low > FURTHEST and not runs_on:
        return []
    few = behind if len(behind) < len(ahead) else ahead
    first = min(waits, key=lambda wait: wait.moment.line)
    summary = (
        f"{ranks_text(ahead)} had come to {_word(facts.said_last[ahead[0]])} {high} with {launched[ahead[0]]} "
        f"collectives, {ranks_text(behind)} to {low} with {launched[behind[0]]}: {ranks_text(few)} "
        f"{'has' if len(few) == 1 else 'have'} {'left one out' if few is ahead else 'made one more'}; "
        f"{ranks_text([wait.rank for wait in waits])} waited in {said(first)}"
    )
    evidence = (facts.said_last[ahead[0]], facts.said_last[behind[0]], *(wait.line for wait in waits))
    # Which layers take part in a backward pass is no decision of the program's own code.
    hooked = any(wait.in_backward or not wait.where for each in choices or [waits] for wait in each)
    return [
        Candidate(
            cause=cause,
            confidence=sure,
            standing="pattern",
            moment=first.moment,
            summary=summary,
            ranks=tuple(sorted(few)),
            evidence=evidence[:MOST_LINES],
        )
        for cause, sure in (
            ("rank-divergent-decision", POSSIBLE if hooked else LIKELY),
            ("rank-dependent-graph", POSSIBLE if hooked else HINT),
        )
    ]


def rounds_between(one: int, other: int, facts: Facts) -> int | None:
    """By how many rounds a rank's last line is further than another one's; None where they are not of one form."""
    last = {rank: facts.said_last[rank] for rank in (one, other) if rank in facts.said_last}
    if len(last) < 2:
        return None
    if len(rounds := _rounds(last)) == 2:
        return rounds[other] - rounds[one]
    forms = {NUMBERS.sub("#", OWN_RANK.sub("", line.text, 1)) for line in last.values()}
    return 0 if len(forms) == 1 and len({OWN_RANK.sub("", line.text, 1) for line in last.values()}) == 1 else None


def _word(line: Line) -> str:
    match = COUNTER.search(OWN_RANK.sub("", line.text, 1))
    return match[0].split()[0].rstrip(":=#").lower() if match else "round"


def _rounds(last: Mapping[int, Line]) -> Mapping[int, int]:
    """By rank the round that its last line names; {} where these lines are not of one form, or differ in an epoch."""
    rounds: dict[int, int] = {}
    forms = set()
    for rank, line in last.items():
        text = OWN_RANK.sub("", line.text, 1)
        match = COUNTER.search(text)
        if match is None:
            return {}
        before = text[: match.start("round")]
        forms.add((before, NUMBERS.sub("#", text[match.end("round") :])))
        rounds[rank] = int(match["round"])
    return rounds if len(forms) == 1 else {}
