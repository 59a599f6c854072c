"""Of a job that is gone: where its ranks waited in the program, by the lines that its dumps name, and what it says."""

from collections.abc import Iterator

from gpudoctor.hang.causes import HangCause, HangJob, collective_divergence, collective_loops
from gpudoctor.hang.dumped import with_ranks


def by_program(job: HangJob) -> Iterator[HangCause]:
    """What the rules on lines of the program say of ranks that have left their recorders only."""
    seen = with_ranks(job)
    if seen is not None:
        for rule in (*collective_divergence.RULES, *collective_loops.RULES):
            yield from rule(seen)


RULES = (by_program,)
