"""What the program calls behind the last collective of ranks that did not come to what the others wait in, by dumps."""

from collections.abc import Sequence

from gpudoctor.hang.causes import LIKELY, HangCause, HangJob, Seen, blame
from gpudoctor.hang.words import ranks_of, statement_seen
from gpudoctor.knowledge.on_the_way import SINCE, told_on
from gpudoctor.knowledge.recorders import parted_by
from gpudoctor.snapshot.evidence import Frame


def since_their_last(job: HangJob, away: Sequence[int], seen: Sequence[Seen]) -> HangCause | None:
    """None where the text leaves open what has kept them, or was not read."""
    source = next((source for source in job.evidence.sources if source.behind), None)
    parts = parted_by(job.evidence.dumps)
    if source is None or parts is None or sorted(parts.away) != sorted(away):
        return None
    way = told_on(source.behind)
    entry = parts.away[away[0]]
    if way.decides is None:
        return None
    whose = "its recorder" if len(away) == 1 else "their recorders"
    return blame(
        way.decides[0],
        LIKELY,
        away,
        f"{ranks_of(parts.waiting)} waited at {source.file}:{source.line}, and {ranks_of(away)} did not come. By "
        f"{whose} {entry.operation} #{entry.sequence} in line {way.said_at} was the last; from there on the program "
        f"{way.words}",
        (*seen, *(statement_seen(source, each) for each in source.behind if each.kind != SINCE)),
        at=Frame(source.function, source.file, next(each.line for each in source.behind if each.kind != SINCE)),
    )
