"""Where nothing decides why two parties wait at two lines: all statements that may have led them apart, if there are
any, are of one cause."""

from collections.abc import Iterator

from gpudoctor.hang.causes import HangCause, HangJob, blame
from gpudoctor.hang.causes.collective_divergence import guarded_away, rank_guard
from gpudoctor.hang.causes.collective_loops import asked_for, asks_of
from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.loops import ends
from gpudoctor.hang.parted import COLLECTIVE, chosen_at, group_of, parted
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.rank_conditions import is_by_rank
from gpudoctor.hang.relation import LOOPS, fork_of, own_sources
from gpudoctor.hang.rivals import WayApart, alike, ways_apart
from gpudoctor.hang.unalike import found_unlike, unalike
from gpudoctor.hang.words import stacks_of, statement_seen, waiting_words, where_line
from gpudoctor.knowledge.place_markers import is_program
from gpudoctor.sure import BEST


def by_elimination(job: HangJob) -> Iterator[HangCause]:
    """Ranks wait at two collectives of one group, and every statement between their lines tells the same of why."""
    if progress_of(job).away:
        return  # whom some of them wait for may come yet
    for pair in parted(job):
        one, other = pair.waiting, pair.other
        if not {one[0].place.kind, other[0].place.kind} <= set(COLLECTIVE) or group_of(one[0]) != group_of(other[0]):
            continue
        # In the two branches of a condition on the rank, each has its own half of what all make.
        if pair.relation != "other branch" and (rank_guard(one[0], job) is not None or guarded_away(other, job)):
            continue
        if fork_of(one[0], other[0]) is None and (chosen := chosen_at(one[0], other[0])) is not None:
            few, many = sorted((one, other), key=len)
            yield blame(
                "rank-divergent-decision",
                BEST,
                few,
                f"{waiting_words(few)}; {waiting_words(many)}: line {chosen.line} has called another function on each",
                (*stacks_of(few), *stacks_of(many)),
                at=chosen,
            )
            continue
        every = [way for way in ways_apart(one[0], other[0]) if not _is_open(way)]
        # What ranks hold says of one of them that it has led them apart: then no other one need have. What counts, says
        # so of ranks that are a round apart for whatever reason.
        open_to = [way for way in every if not only_counts(way.statement.text)]
        ways = [way for way in open_to if found_unlike(one[0], other[0], way.statement, way.source)] or every
        if not ways or any(way.cause not in alike(ways[0].cause) for way in ways):
            continue
        # A collective that Python calls unwritten (`__len__`) may be what one of them has more.
        unwritten = any(source.unwritten for rank in job.ranks for source in own_sources(rank))
        if (unwritten and ways[0].cause == "uneven-inputs") or any(is_by_rank(way.statement) for way in ways):
            continue  # `guarded` knows of these
        ranks = [*one, *other]
        # Whose values differ, before what only may; what counts steps, and what goes over what a rank holds, last.
        way = min(
            ways,
            key=lambda each: (
                not unalike(ranks, each.statement, each.source),
                each.statement.kind in LOOPS,
                only_counts(each.statement.text),
            ),
        )
        few, many = sorted((one, other), key=len)
        given = asked_for(way.statement, asks_of(job)) if not is_program(way.source.file) else None
        yield blame(
            way.cause,
            BEST,
            few,
            f"{waiting_words(few)}; {waiting_words(many)}: what leads one of them past the other is "
            f"`{way.statement.kind} {way.statement.text}`".rstrip()
            + f" in line {way.statement.line}",
            (*stacks_of(few), *stacks_of(many), *(statement_seen(each.source, each.statement) for each in ways[:3])),
            at=given or where_line(way.source, way.statement, few[0]),
        )


def _is_open(way: WayApart) -> bool:
    """A loop of which its text does not tell why it may end."""
    return way.statement.kind in LOOPS and ends(way.statement) == "unknown"


RULES = (by_elimination,)
