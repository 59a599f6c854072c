"""What the user's program says of where ranks waited, where it can be read: a door, for logs are read without it.

A watchdog names the lines from which the collective that did not end was called. Whether such a line stands below a
condition on the rank, or behind the loop that others are in, only the program tells; `gpudoctor hang` reads it of jobs
that live, and whoever asks `explain` on the machine of the job hands over how (`gpudoctor/left.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.order import Facts
from gpudoctor.explain.tracebacks import StackFrame
from gpudoctor.explain.waits import DEFAULT_GROUP, MOST_LINES, Wait


class Stood(NamedTuple):
    """Where a rank waited."""

    operation: str
    """Of torch.distributed, as the program calls it; "" where hooks of DDP or FSDP have started it."""
    frames: tuple[StackFrame, ...]
    """Of the user's program, innermost first."""


class OfProgram(NamedTuple):
    cause: str
    confidence: float
    ranks: tuple[int, ...]
    summary: str


Program = Callable[[Mapping[int, Stood], int], Sequence[OfProgram]]
"""By rank where it waited, and the number of ranks -> what the program says of it, best first."""


def by_program(waits: Sequence[Wait], facts: Facts, program: Program | None) -> list[Candidate]:
    """Causes that the program shows; of ranks in one group, and where a line of it was named."""
    if program is None or not any(wait.frames for wait in waits):
        return []
    if any(wait.group not in ("", DEFAULT_GROUP) for wait in waits):
        return []
    stood = {wait.rank: Stood(wait.function, wait.frames) for wait in waits}
    first = min(waits, key=lambda wait: wait.moment.line)
    return [
        Candidate(
            cause=said.cause,
            confidence=said.confidence,
            standing="pattern",
            moment=first.moment,
            summary=said.summary,
            ranks=said.ranks,
            evidence=tuple(dict.fromkeys(wait.line for wait in waits))[:MOST_LINES],
        )
        for said in program(stood, facts.world_size or max(facts.ranks, default=-1) + 1)
    ]
