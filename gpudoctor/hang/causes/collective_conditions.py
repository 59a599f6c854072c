"""Ranks part by an exception that some of them have had."""

from collections.abc import Iterator

from gpudoctor.hang.causes import SEEN, HangCause, HangJob, blame
from gpudoctor.hang.parted import handler_of_one, parted
from gpudoctor.hang.words import stacks_of, statement_seen, waiting_words


def in_handler(job: HangJob) -> Iterator[HangCause]:
    """An exception on some ranks only: they wait where it is caught, the others where it was not raised."""
    for pair in parted(job):
        if (handled := handler_of_one(pair)) is None:
            continue
        ranks, handler = handled.ranks, handled.handler
        yield blame(
            "rank-divergent-decision",
            SEEN,
            ranks,
            f"{waiting_words(ranks)}, where an exception is caught that the others did not have (except "
            f"{handler.text}, line {handler.line}); {waiting_words(handled.others)}",
            (*stacks_of(ranks), *stacks_of(handled.others), statement_seen(handled.source, handler)),
            at=ranks[0].place.user_frame,
        )


RULES = (in_handler,)
