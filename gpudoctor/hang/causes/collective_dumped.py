"""Of a job that is gone: where its ranks waited in the program, by the lines that its dumps name, and what it says."""

from collections.abc import Iterator

from gpudoctor.hang.causes import (
    HangCause,
    HangJob,
    collective_conditions,
    collective_divergence,
    collective_loops,
    end_teardown,
)
from gpudoctor.hang.dumped import with_ranks

OF_PROGRAM = (
    *collective_divergence.RULES,
    *collective_loops.RULES,
    *collective_conditions.RULES,
    end_teardown.in_finally,
)
"""Rules that ask for nothing but where ranks wait, and the program's text there."""


def by_program(job: HangJob) -> Iterator[HangCause]:
    """What the rules on lines of the program say of ranks that have left their recorders only."""
    seen = with_ranks(job)
    if seen is not None:
        for rule in OF_PROGRAM:
            yield from rule(seen)


RULES = (by_program,)
