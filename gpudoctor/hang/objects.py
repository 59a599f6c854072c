"""What stands behind a line that decides nothing: a call into a library, in which one rank waits and which another has
come through. Its object was made with other numbers, was told another truth value, was not asked what a condition or a
`continue` leads past, or was handed a function on one rank only.

Only of the first cause, and only its line: who is to blame, other rules have said."""

from collections.abc import Iterator, Sequence

from msgspec import structs

from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.rank_conditions import is_by_rank
from gpudoctor.hang.relation import source_at
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.unalike import unalike, words
from gpudoctor.hang.words import statement_seen, where_line
from gpudoctor.knowledge.place_markers import is_program
from gpudoctor.snapshot.evidence import Enclosing, SourceContext
from gpudoctor.sure import BEST, POSSIBLE, PRIMARY

OF_ORDER = frozenset(
    ("rank-divergent-decision", "rank0-only-collective", "uneven-inputs", "collective-order-mismatch", "p2p-order")
)
_FIRST = ("made", "handed", "left", "told", "asked", "data")
"""In which order they are believed: what numbers show, then what is written."""
_VALUES = ("made", "told")


def with_objects(job: HangJob, causes: Sequence[HangCause]) -> tuple[HangCause, ...]:
    """The first cause with the line that decides what an object does, where its own line is a call of the object."""
    if not causes or causes[0].cause not in OF_ORDER or not _decides_nothing(job, causes[0]):
        return (*causes,)
    first = causes[0]
    found = min(_behind(job, first), key=lambda each: _FIRST.index(each[0].kind), default=None)
    # Of what is undecided only a value says more: what is written fits as much else does.
    if found is None or (first.confidence < PRIMARY and found[0].kind not in _VALUES):
        return (*causes,)
    statement, source, told = found
    sure = first.confidence
    if sure == POSSIBLE and first.ranks:
        sure = BEST  # what else fits, would not have this beside it
    changed = structs.replace(
        first,
        confidence=sure,
        where=where_line(source, statement),
        summary=f"{first.summary}; {told}",
        evidence=(*first.evidence, _seen(source, statement)),
    )
    return changed, *causes[1:]


def _seen(source: SourceContext, statement: Enclosing) -> Seen:
    kind = "if" if statement.kind in ("asked", "handed", "left") else "with"
    return statement_seen(source, structs.replace(statement, kind=kind))


def _decides_nothing(job: HangJob, cause: HangCause) -> bool:
    """Whether its line is one at which a rank stands, unless it was told as the condition (what is called may stand in
    a table), or a condition that is alike on all."""
    place = cause.where
    if place is None:
        return False
    line = f"{place.file}:{place.line}"
    told = any(seen.source == line and seen.text.startswith("if ") for seen in cause.evidence)
    for rank in job.ranks:
        if any((frame.file, frame.line) == (place.file, place.line) for frame in rank.place.user_frames):
            return not told
        for source in rank.evidence.sources:
            if source.file == place.file and any(
                around.line == place.line
                and around.kind in ("if", "elif")
                and only_counts(around.text)
                and not unalike(job.ranks, around, source)
                for around in source.enclosing
            ):
                return True
    return False


def _behind(job: HangJob, cause: HangCause) -> Iterator[tuple[Enclosing, SourceContext, str]]:
    """What may decide, of the lines of the program at which ranks stand, innermost first; each with what is to be said
    of it."""
    place = cause.where
    lines = {(frame.file, frame.line) for rank in job.ranks for frame in rank.place.user_frames}
    own = place is not None and (place.file, place.line) in lines
    for rank in job.ranks:
        for number, frame in enumerate(rank.place.user_frames):
            source = source_at(rank, frame)
            if source is None or not is_program(source.file) or source.installed:
                continue
            at_place = place is not None and (frame.file, frame.line) == (place.file, place.line)
            for each in source.objects:
                if each.kind == "handed":
                    if at_place or _elsewhere(job, rank, source):
                        continue  # all are in it, or it is where they were told apart
                elif not (at_place if own else number == 0):
                    continue
                if (told := _told(job, cause, each, source)) is not None:
                    yield each, source, told


def _elsewhere(job: HangJob, rank: Rank, source: SourceContext) -> bool:
    """Whether every rank is in the function of a line."""
    return all(
        any((frame.file, frame.function) == (source.file, source.function) for frame in each.place.user_frames)
        for each in job.ranks
        if each is not rank
    )


def _told(job: HangJob, cause: HangCause, own: Enclosing, source: SourceContext) -> str | None:
    if own.kind == "data":
        return _of_data(cause, own, source)
    if own.kind == "made":
        held = unalike(job.ranks, Enclosing("if", own.line, own.text), source)
        if not held:
            return None
        name, values = next(iter(held.items()))
        return f"what it calls was made in line {own.line} with {words(name, values)}"
    if own.kind == "told":
        return f"line {own.line} tells what it calls whether `{own.text}`"
    if own.kind == "handed":
        return f"line {own.line} hands on {source.function.rpartition('.')[2]} under `if {own.text}`"
    if own.kind not in ("asked", "left") or only_counts(own.text, source.enclosing):
        return None
    if own.kind == "left":
        return f"`if {own.text}` in line {own.line} leads out of that loop"
    if is_by_rank(own):
        return None
    return f"`if {own.text}` in line {own.line} leads past what else is called of it"


def _of_data(cause: HangCause, own: Enclosing, source: SourceContext) -> str | None:
    """Of a framework's loop over data, the function of the program that has given them."""
    loops = [seen.source for seen in cause.evidence if seen.text.startswith(("for ", "while "))]
    evaluates = any("eval" in each.rpartition("/")[2] for each in loops)
    hooks = {each.text for each in source.objects if each.kind == "data"}
    meant = {each for each in hooks if ("train" in each) is not evaluates}
    if cause.cause != "uneven-inputs" or not loops or meant != {own.text}:
        return None
    return f"{own.text} gives it what it goes over, in line {own.line}"
