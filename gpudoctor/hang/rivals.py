"""What else may have led two parties of ranks apart: a conclusion is as sure as its rivals are excluded.

That two ranks wait at two lines follows from every statement on their ways that one of them may have found otherwise. A
rule names one of these; it is sure where all that are left lead to the same cause, or counters and variables exclude
the others. Else it is the one that fits best, and the others are told beside it.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from gpudoctor.causes import CAUSES
from gpudoctor.hang.conditions import parsed
from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.job import Rank
from gpudoctor.hang.loops import ends, holds, how_ended, is_of_data
from gpudoctor.hang.parted import Parted, may_swallow, went_round
from gpudoctor.hang.rank_conditions import asks_for_world, is_by_rank
from gpudoctor.hang.relation import (
    LOOPS,
    Fork,
    fork_of,
    frames_within,
    goes_round,
    keeps_gradients,
    leaves_before,
    loop_around,
    own_sources,
    passes_by,
    source_at,
)
from gpudoctor.hang.report import HangCause, Seen
from gpudoctor.hang.variables import first_numbers, held_at, in_one_round, last_round, rounds_apart
from gpudoctor.hang.words import statement_seen
from gpudoctor.hang.written import was_written
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext
from gpudoctor.sure import BEST, CERTAIN, LIKELY, POSSIBLE

MOST_NAMED = 3
CONDITIONS = ("if", "elif", "else")


class WayApart(NamedTuple):
    """A statement that may have led some ranks past what others wait in."""

    statement: Enclosing
    source: SourceContext

    @property
    def cause(self) -> str:
        """What it is a case of, were it the one."""
        own = self.statement
        if own.kind in LOOPS:
            return how_ended([own]).cause
        if is_by_rank(own):
            return "rank0-only-collective"
        return "uneven-inputs" if own.kind == "break" and is_of_data(own) else "rank-divergent-decision"


def weighed(pair: Parted, causes: Iterable[HangCause]) -> Iterator[HangCause]:
    """What is said of two parties, no surer than what else may have led them apart leaves it."""
    said = sorted(causes, key=lambda cause: -cause.confidence)
    if not said or said[0].confidence < LIKELY:
        yield from said
        return
    if first_numbers(pair.waiting[0], pair.other[0]) is not None:
        # Whatever one of them has passed, they are not in one round.
        yield from (structs.replace(cause, confidence=min(cause.confidence, BEST)) for cause in said)
        return
    ways = list(ways_apart(pair.waiting[0], pair.other[0]))
    best = said[0].cause
    for cause in said:
        told = {seen.source for seen in cause.evidence}
        rest = [way for way in ways if _place(way) not in told]
        rivals = [way for way in rest if way.cause not in alike(cause.cause)]
        # Without a statement that leads there, something that was not read has: what calls it, or what is called.
        shown = any(way.cause in alike(cause.cause) for way in ways) or any("recorder" in source for source in told)
        own = [way for way in ways if _place(way) in told]
        first = cause.cause == "rank-divergent-decision" and any(_of_first(way, pair) for way in own)
        if rivals or not shown or first:
            cause = structs.replace(cause, confidence=min(cause.confidence, BEST if cause.cause == best else POSSIBLE))
        yield _with_others(cause, sorted(rest, key=lambda way: way not in rivals)[:MOST_NAMED])
        if first:
            known = CAUSES["rank0-only-collective"]
            yield structs.replace(
                cause,
                cause=known.id,
                confidence=POSSIBLE,
                meaning=known.meaning,
                fix=known.remedy(),
                confirm="Whether that condition asks for the first rank, by another name, decides.",
            )


def _of_first(way: WayApart, pair: Parted) -> bool:
    """Whether a condition that only the first rank has found so may ask for it, by a name that tells nothing: what
    compares amounts does not."""
    alone = [party[0] for party in (pair.waiting, pair.other) if [rank.rank for rank in party] == [0]]
    if not alone or way.source not in alone[0].evidence.sources or way.statement.kind not in (*CONDITIONS, "return"):
        return False
    tree = parsed(way.statement.text)
    amounts = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    return tree is None or not any(isinstance(node, amounts) for node in ast.walk(tree))


def _with_others(cause: HangCause, ways: Sequence[WayApart]) -> HangCause:
    """With what else may have been the way, to be looked at."""
    if not ways or cause.confidence >= CERTAIN:
        return cause
    seen = (statement_seen(way.source, way.statement) for way in ways)
    return structs.replace(
        cause,
        evidence=(*cause.evidence, *(Seen(line.source, f"may be it as well: {line.text}") for line in seen)),
        confirm=f"{cause.confirm} What else may have led them apart: {'; '.join(map(_words, ways))}.".lstrip(),
    )


def alike(cause: str) -> frozenset[str]:
    """Causes of which one is no rival of another: a decision that asks for the rank is one too."""
    return next((names for names in _ALIKE if cause in names), frozenset((cause,)))


_ALIKE = (
    frozenset(("rank-divergent-decision", "rank0-only-collective")),
    frozenset(("collective-order-mismatch", "rank-divergent-decision")),
)


def _place(way: WayApart) -> str:
    return f"{way.source.file}:{way.statement.line}"


def _words(way: WayApart) -> str:
    own = way.statement
    return f"`{own.kind} {own.text}".rstrip() + f"` in line {own.line}"


def ways_apart(one: Rank, other: Rank) -> Iterator[WayApart]:
    """All that may have led the one past what the other waits in, or the other past that of the one; each once."""
    known: set[tuple[str, str, int]] = set()
    for stays, gone in ((one, other), (other, one)):
        for way in _past(stays, gone):
            own = way.statement
            key = way.source.file, own.text, 0 if own.text else own.line
            if key not in known:
                known.add(key)
                yield way


def _past(stays: Rank, gone: Rank) -> Iterator[WayApart]:
    fork = fork_of(stays, gone)
    if fork is None:
        return
    apart = rounds_apart((stays, gone))
    behind = apart is not None and apart.behind == [gone]
    forward = fork.other.line > fork.one.line
    one_round = in_one_round(stays, gone)
    if behind or (not forward and (one_round or not _in_a_loop(stays, fork))):
        return  # by its counters it has not come past, or not yet
    yield from _around(stays, gone, fork, one_round, apart is not None and apart.behind == [stays])
    if fork.one_source is not None:
        loop = loop_around(fork.one_source)
        theirs = fork.other_source.enclosing if fork.other_source is not None else ()
        out = loop is not None and loop not in theirs
        counted = last_round(stays, gone, loop) if loop is not None and out else None
        for each in goes_round(fork.one_source, stays):
            # Who has left the loop went round as often as who is in it, or it was not by going round.
            if (counted is None or counted[1] >= counted[0]) if out else went_round(each, stays, gone):
                yield WayApart(each, fork.one_source)
        if counted is not None and counted[1] < counted[0]:
            return  # it has left that loop in a round before: what is called in this one it has not come to
    context = source_at(stays, stays.place.user_frame)
    if stays.place.kind == "backward" and context is not None and (keeps := keeps_gradients(context)) is not None:
        yield WayApart(keeps, context)
    for frame in frames_within(stays, fork.one):
        source = source_at(stays, frame)
        if source is None:
            continue
        yield from _swallowed(source)
        if frame != fork.one:
            yield from _inside(stays, gone, frame, source)


def _in_a_loop(stays: Rank, fork: Fork) -> bool:
    """Whether a loop is around where they part, or around a call further out, of the program or of a framework."""
    inner = frames_within(stays, fork.one)[:-1]
    outer = [source for source in own_sources(stays) if not any(source_at(stays, each) == source for each in inner)]
    return any(around.kind in LOOPS for source in outer for around in source.enclosing)


def _around(stays: Rank, gone: Rank, fork: Fork, one_round: bool, passed: bool) -> Iterator[WayApart]:
    """Conditions and loops around the line of the one, and not around that of the other, where they part."""
    source = fork.one_source
    if source is None:
        return
    theirs = {around.line for around in fork.other_source.enclosing} if fork.other_source is not None else set()
    for around in source.enclosing:
        if around.line in theirs:
            continue
        if around.kind in LOOPS:
            yield from _left(stays, gone, around, source)
        elif around.kind in CONDITIONS and passed and only_counts(around.text):
            yield WayApart(around, source)  # who has counted as far before has not found it so
        elif _may_differ(around, stays, fork.one) and not (one_round and alike_on_both(around, fork, stays, gone)):
            yield WayApart(around, source)


def _left(stays: Rank, gone: Rank, loop: Enclosing, source: SourceContext) -> Iterator[WayApart]:
    """How a loop may have ended on one rank before: by itself, or by a statement that leaves it."""
    counted = last_round(stays, gone, loop)
    by_itself = ends(loop) != "alike" and (counted is None or counted[1] < counted[0])
    values = next((held_at(gone, frame) for frame in gone.place.user_frames if frame.function == source.function), {})
    leaves = [each for each in passes_by(source) if each.kind in ("break", "return")]
    verdicts = [(holds(each.text, values), each) for each in leaves]
    ways = [WayApart(loop, source)] if by_itself else []
    ways += [WayApart(own, source) for verdict, own in verdicts if verdict is None]
    yield from [
        WayApart(own, source) for verdict, own in verdicts if verdict
    ] or ways  # its variables say which it took


def _swallowed(source: SourceContext) -> Iterator[WayApart]:
    """What is caught below a `try` around a line, and goes on as if it had been there."""
    tries = [around.line for around in source.enclosing if may_swallow(around)]
    for leaves in source.exits:
        if (
            tries
            and leaves.line >= min(tries)
            and (leaves.kind in ("pass", "caught") or leaves.text.startswith("except"))
        ):
            yield WayApart(leaves, source)


def _inside(stays: Rank, gone: Rank, frame: Frame, source: SourceContext) -> Iterator[WayApart]:
    """The same of a function that has been called from there: what is around its line, and what leaves it before."""
    for around in source.enclosing:
        if around.kind in LOOPS:
            yield from _left(stays, gone, around, source) if not around.gives else ()
        elif _may_differ(around, stays, frame):
            yield WayApart(around, source)
    for leaves in leaves_before(source, frame.line):
        if leaves.text and not only_counts(leaves.text) and not was_written(stays, frame, leaves.text):
            yield WayApart(leaves, source)


def _may_differ(around: Enclosing, rank: Rank, frame: Frame) -> bool:
    if around.kind == "except":
        return True
    alike = asks_for_world(around.text) or only_counts(around.text) or was_written(rank, frame, around.text)
    return around.kind in CONDITIONS and not alike


def alike_on_both(guard: Enclosing, fork: Fork, one: Rank, other: Rank) -> bool:
    """Whether the variables of both ranks say alike to a condition around the line of one of them."""
    mine, theirs = (holds(guard.text, held_at(*each)) for each in ((one, fork.one), (other, fork.other)))
    return mine is not None and mine == theirs
