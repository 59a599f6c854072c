"""A job in two: those that wait in the largest party, and one that is elsewhere, and what lies between them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.doing import stands
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.progress import JobProgress, parties, progress_of, waits
from gpudoctor.hang.rank_conditions import is_by_rank
from gpudoctor.hang.relation import (
    COUNTED,
    LOOPS,
    Fork,
    Relation,
    called_from,
    fork_of,
    frames_within,
    group_argument,
    guard_apart,
    leaves_before,
    loop_around,
    members_of,
    own_guard,
    parting,
    relation,
    remembers,
    same_function,
    source_at,
    told_frames,
    waits_with_a_root,
)
from gpudoctor.hang.variables import round_of, rounds_apart
from gpudoctor.hang.words import ranks_of
from gpudoctor.hang.written import was_written
from gpudoctor.knowledge.place_markers import is_program, normal
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Enclosing, Frame, SourceContext
from gpudoctor.sure import LIKELY, POSSIBLE, PROVED

COLLECTIVE = ("collective", "backward", "cuda sync", "communicator init")


def comes_by(rank: Rank, frame: Frame, other: Rank) -> bool:
    """Whether a rank has come by a line of another one, or is, in a thread, in what that has called there."""
    if any(frame == own for own, _ in told_frames(rank)):
        return True
    frames = other.place.user_frames
    within = frames[: frames.index(frame)] if frame in frames and rank.acting and not other.acting else ()
    called = {(each.file, each.function) for each in within}
    return any((own.file, own.function) in called for own in rank.place.user_frames)


class Parted(NamedTuple):
    """The job in two: those that wait in the largest party, and one party that is elsewhere."""

    waiting: list[Rank]
    other: list[Rank]
    relation: Relation
    """Of `other`, seen from `waiting`."""


def standing_of(job: HangJob) -> tuple[JobProgress, list[list[Rank]], list[list[Rank]]] | None:
    """Progress, the parties that wait in collectives (the largest first), and all others."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "held", "starting", "unknown") or not progress.waiting:
        return None
    if progress.verdict == "unknown" and not any(motion == "still" for motion in progress.motions):
        return None
    waiting = [rank for rank in progress.waiting if rank.place.kind in COLLECTIVE]
    largest_first = sorted(parties(waiting), key=lambda party: (-len(party), party[0].rank))
    return progress, largest_first, parties(progress.away)


def parted(job: HangJob) -> list[Parted]:
    """Pairs of the largest waiting party and each other one that may have left it."""
    if (standing := standing_of(job)) is None:
        return []
    progress, waiting, away = standing
    if not waiting:
        return []
    first = waiting[0]
    # One that stands in a wait of its own is away: what it waits for is its trouble, not what it has passed. One that
    # works may come yet.
    works = {id(rank) for rank in progress.busy if rank.place.kind != "exit"}
    away = [party for party in away if not stands(party[0]) and id(party[0]) not in works]
    others = [*waiting[1:], *(party for party in away if party[0].place.kind in ("exit", "user code", "sleep"))]
    pairs = []
    for other in others:
        how, back = lies(first[0], other[0]), lies(other[0], first[0])
        turned = back == "past the loop" and how != "past the loop"
        pairs.append(Parted(other, first, back) if turned else Parted(first, other, how))
    return pairs


def lies(one: Rank, other: Rank) -> Relation:
    """Where the second rank is, seen from the first: one further down in a loop that is a round behind is not past the
    line of the first, nor past a loop that the first has come to since."""
    how = relation(one, other)
    apart = rounds_apart((one, other)) if how in ("later in the loop", "past the loop") else None
    return "earlier" if apart is not None and apart.behind == [other] else how


def went_round(way: Enclosing, stays: Rank, gone: Rank) -> bool:
    """Whether a `continue` may have led one rank to where it waits, past the line of another one. Who stands below that
    line in the loop has come by it and has met the others there, unless it is counted to be a round ahead, or waits in
    what not every round makes."""
    fork = fork_of(stays, gone)
    apart = rounds_apart((stays, gone))
    ahead = apart is not None and apart.ahead == [gone]
    if way.kind != "continue" or ahead or fork is None:
        return True
    return fork.other.line <= fork.one.line or guard_apart(fork.other_source, fork.one_source) is not None


class Handled(NamedTuple):
    """Ranks that wait in the handler of an exception that the others have not had."""

    ranks: list[Rank]
    others: list[Rank]
    handler: Enclosing
    source: SourceContext
    further_in: bool = False
    """It is in what has been called where they part."""


_OF_ALL = lazy_re(r"\b(?:Import|ModuleNotFound|Attribute|Name|Type|NotImplemented)Error")
"""What is caught where something is tried that a release or a machine may lack, on all ranks alike."""


def handler_of_one(pair: Parted) -> Handled | None:
    """Which of two parties waits in an `except` that the other one is not in, if one does."""
    for ranks, others in ((pair.other, pair.waiting), (pair.waiting, pair.other)):
        fork = fork_of(others[0], ranks[0])
        if fork is None or fork.one_source is None or fork.other_source is None:
            continue
        around = {statement.line for statement in fork.one_source.enclosing}
        called = [source_at(ranks[0], frame) for frame in called_from(ranks[0], fork.other)]
        for source in (fork.other_source, *filter(None, called)):
            known = around if source is fork.other_source else ()
            handler = next((own for own in source.enclosing if own.kind == "except" and own.line not in known), None)
            if handler is not None and source is not fork.other_source and _OF_ALL.search(handler.text):
                continue
            if handler is not None and ranks[0].place.kind in COLLECTIVE and is_program(source.file):
                return Handled(ranks, others, handler, source, source is not fork.other_source)
    return None


class Condition(NamedTuple):
    """A condition that asks for no rank, below which ranks wait."""

    statement: Enclosing
    source: SourceContext


def condition_below(left: Sequence[Rank], stays: Sequence[Rank]) -> Condition | None:
    """The innermost condition under which some wait in a collective, from where others part from them inwards: these
    need not have found it so. Not one that counts steps, which all ranks count alike."""
    fork = fork_of(stays[0], left[0])
    if left[0].place.kind not in COLLECTIVE:
        return None
    frames = left[0].place.user_frames
    if fork is None:
        inner = called_behind(stays[0], left[0])
    elif fork.other not in frames and rounds_apart((stays[0], left[0])) is not None:
        inner = frames_within(left[0], fork.other)  # they have not met there in one round of a framework's loop
    else:
        inner = frames[: frames.index(fork.other) + 1] if fork.other in frames else frames[:1]
    for frame in inner:
        source = source_at(left[0], frame)
        meet = fork is not None and frame == fork.other
        guard = guard_apart(source, fork.one_source if fork is not None and meet else None)
        guard = guard or (remembers(source) if not meet else None)
        if source is None or guard is None:
            continue
        if guard.kind == "except" or is_by_rank(guard):
            return None
        if not only_counts(guard.text) and not was_written(left[0], frame, guard.text):
            return Condition(guard, source)
    return None


def called_behind(stays: Rank, other: Rank) -> Sequence[Frame]:
    """What the line at which one rank is in backward has called on another: `objective(rows).backward()`. The program's
    frames, innermost first."""
    line = stays.place.user_frame
    return called_from(other, line) if line in other.place.user_frames and stays.place.kind == "backward" else ()


class Passed(NamedTuple):
    """Ranks that an exception has led past a line, where it was swallowed."""

    gone: Sequence[Rank]
    stays: Sequence[Rank]
    source: SourceContext
    line: Enclosing


def swallowed(one: Sequence[Rank], other: Sequence[Rank]) -> Passed | None:
    """Whether one party waits below a `try` or `suppress` that swallows the exception, and the other is not in it."""
    for stays, gone in ((one, other), (other, one)):
        fork = fork_of(gone[0], stays[0])
        if fork is None:
            continue
        own_frame = (fork.other,) if fork.other in stays[0].place.user_frames else ()
        theirs = {around.line for around in fork.one_source.enclosing} if fork.one_source is not None else set()
        for frame in (*called_from(stays[0], fork.other), *own_frame):
            source = source_at(stays[0], frame)
            tries = [around.line for around in source.enclosing if may_swallow(around)] if source is not None else []
            own = [line for line in tries if frame != fork.other or line not in theirs]
            # Who returns, or goes on with the next round, in the handler has swallowed it too.
            passes = [
                leaves
                for leaves in (source.exits if source is not None else ())
                if leaves.kind in ("pass", "caught") or leaves.text.startswith("except")
            ]
            line = next((leaves for leaves in passes if own and leaves.line >= min(own)), None)
            if line is not None and source is not None:
                return Passed(gone, stays, source, line)
    return None


def may_swallow(around: Enclosing) -> bool:
    return around.kind == "try" or (around.kind == "with" and re.search(r"\bsuppress\(", around.text) is not None)


def where_they_part(job: HangJob) -> str:
    """The last function that two parties of ranks are both in, and the line of each there: true whatever the reason."""
    for pair in parted(job):
        frames = parting(pair.waiting[0], pair.other[0])
        if frames is not None:
            one, other = ranks_of(pair.waiting), ranks_of(pair.other)
            return (
                f"{one} and {other} have gone different ways in {frames[0].function} of "
                f"{frames[0].file.rpartition('/')[2]}: lines {frames[0].line} and {frames[1].line}"
            )
    return ""


def chosen_at(one: Rank, other: Rank) -> Frame | None:
    """The innermost line of the program that two ranks are both at, where it has called one of its functions here and
    another one there: by a table, a name, an object's class, or one after the other."""
    mine, theirs = [*reversed(one.place.user_frames)], [*reversed(other.place.user_frames)]
    common: Frame | None = None
    for own, its in zip(mine, theirs, strict=False):
        if own != its:
            differ = own.file != its.file or not same_function(own.function, its.function)
            return common if differ and common is not None and common.function != "<module>" else None
        common = own
    return None


def share_a_loop(one: Rank, other: Rank) -> bool:
    """Whether a loop is around the lines at which two ranks part, or around the call that both are in."""
    fork = fork_of(one, other)
    frames = one.place.user_frames
    if fork is None or fork.one not in frames:
        return False
    outer = frames[frames.index(fork.one) + 1 :]
    return _in_one_loop(fork) or any(loop_around(source_at(one, frame)) is not None for frame in outer)


def _in_one_loop(fork: Fork) -> bool:
    own, theirs = (
        {around.line for around in source.enclosing if around.kind in LOOPS} if source is not None else set()
        for source in (fork.one_source, fork.other_source)
    )
    return bool(own & theirs)


_OWN = lazy_re(r"\bself\.\w")


def returned(one: Sequence[Rank], other: Sequence[Rank], *, own_counts: bool = False) -> Passed | None:
    """Whether one party waits in a function that a condition above the line leaves early, and the other one is past the
    call of it. `own_counts`: also one that counts what its object has done, and not the steps of the job."""
    for stays, gone in ((one, other), (other, one)):
        fork = fork_of(gone[0], stays[0])
        if fork is None:
            continue
        if fork.one.line <= fork.other.line and (
            guard_apart(fork.one_source, fork.other_source) is not None or not _in_one_loop(fork)
        ):
            continue  # what each round of a loop makes, who is past it has made with all: it is in the next one
        for frame in called_from(stays[0], fork.other):
            source = source_at(stays[0], frame)
            for leaves in leaves_before(source, frame.line):
                own = "" if was_written(stays[0], frame, leaves.text) else leaves.text
                counts = only_counts(leaves.text) and not (own_counts and _OWN.search(leaves.text))
                if own and not leaves.asks and not counts and source is not None:
                    around = own_guard(source)  # nearer to the line than what leaves above it
                    near = around is not None and around.line > leaves.line and not only_counts(around.text)
                    return Passed(gone, stays, source, around if around is not None and near else leaves)
    return None


def under_another(early: Passed) -> bool:
    """Whether the call below which some have left a function early is itself under a condition that decides."""
    fork = fork_of(early.stays[0], early.gone[0])
    guard = guard_apart(fork.one_source, fork.other_source) if fork is not None else None
    return guard is not None and guard.kind in ("if", "elif") and not only_counts(guard.text) and not is_by_rank(guard)


class Again(NamedTuple):
    """Ranks that stand above a loop which they have been in before: it is begun anew."""

    ranks: Sequence[Rank]
    others: Sequence[Rank]
    loop: Enclosing
    source: SourceContext
    rounds: int


def begun_again(one: Sequence[Rank], other: Sequence[Rank]) -> Again | None:
    """Whether one party waits above a loop in which the other has gone round: what it waits in these have come past, so
    it has done so too, before something that called it has called it once more (a retry, the next trial)."""
    for stays, gone in ((one, other), (other, one)):
        fork = fork_of(stays[0], gone[0])
        if fork is None or fork.one_source is None or fork.other_source is None or share_a_loop(stays[0], gone[0]):
            continue
        theirs = {around.line for around in fork.other_source.enclosing}
        own = [around for around in fork.one_source.enclosing if around.kind in LOOPS and around.line not in theirs]
        rounds = round_of(stays[0], own[-1], fork.one) if own else None
        above = own and fork.other.line < own[-1].line and gone[0].place.kind in COLLECTIVE
        if above and rounds is not None and rounds > 0 and not waits_with_a_root(gone[0]):
            return Again(gone, stays, own[-1], fork.one_source, rounds)
    return None


def tried_again(one: Sequence[Rank], other: Sequence[Rank]) -> Passed | None:
    """The same where a loop is around both: whether it swallows an exception and calls once more, and the loop inside
    of it ends by nothing else that is seen."""
    for stays, gone in ((one, other), (other, one)):
        fork = fork_of(stays[0], gone[0])
        frames = gone[0].place.user_frames
        if fork is None or fork.one_source is None or fork.other not in frames or gone[0].place.kind not in COLLECTIVE:
            continue
        loop = loop_around(fork.one_source)
        theirs = fork.other_source.enclosing if fork.other_source is not None else ()
        if loop is None or loop in theirs or fork.other.line > loop.line or COUNTED.search(loop.text) is None:
            continue
        for frame in frames[frames.index(fork.other) :]:
            source = source_at(gone[0], frame)
            within = [around.kind for around in source.enclosing] if source is not None else []
            again = "try" in within and any(kind in LOOPS for kind in within[within.index("try") :])
            caught = next((way for way in source.exits if way.kind == "pass"), None) if source is not None else None
            if again and caught is not None and source is not None:
                return Passed(gone, stays, source, caught)
    return None


def inside_a_call(one: Sequence[Rank], other: Sequence[Rank]) -> tuple[Sequence[Rank], Sequence[Rank], Frame] | None:
    """Of two parties in one round of a loop, the one that waits in what a call makes, and the other one, which has come
    past that call in the same round: the call did not make it there."""
    for stays, gone in ((one, other), (other, one)):
        fork = fork_of(stays[0], gone[0])
        if fork is None or fork.one.line >= fork.other.line:
            continue
        within = frames_within(stays[0], fork.one)[:-1]
        # The call may be the collective itself, which nobody comes past alone.
        made = any(not normal(frame.file).endswith(_OF_C10D) for frame in within)
        both = stays[0].place.kind == "collective" and gone[0].place.kind in ("collective", "backward")
        rooted = may_have_given(stays, gone) or may_have_given(gone, stays)
        around = loop_around(fork.one_source)
        there = fork.other_source.enclosing if fork.other_source is not None else ()
        if made and both and not rooted and (around is None or around in there):
            return stays, gone, fork.one
    return None


def may_have_given(stays: Sequence[Rank], gone: Sequence[Rank]) -> bool:
    """Whether who is past a collective with a root may have given its part there, needing no answer. Not one
    alone, where all others stand in it: it would be over."""
    return waits_with_a_root(stays[0]) and (len(gone) > 1 or len(stays) + 1 != stays[0].world_size)


_OF_C10D = ("torch/distributed/distributed_c10d.py", "torch/distributed/c10d_logger.py")


def calls_back(one: Rank, other: Rank, context: SourceContext) -> bool:
    """Whether a framework, where two ranks part, has called a function of the program that only one of them is in: what
    leaves the framework's own function early is not why."""
    mine, theirs = one.place.user_frame, other.place.user_frame
    if is_program(context.file) or mine is None or theirs is None:
        return False
    return mine.file != theirs.file or not same_function(mine.function, theirs.function)


_EVERYBODY = lazy_re(r"(?:None|.*\bWORLD)?")


def group_of(rank: Rank) -> str:
    """What the line at which a rank waits names as its process group; "" where it names none, or all."""
    context = source_at(rank, rank.place.user_frame)
    named = group_argument(context.text) if context is not None else ""
    return "" if _EVERYBODY.fullmatch(named) else named


def sure_of_group(party: Sequence[Rank], others: Sequence[Rank]) -> float:
    """How sure it may be that all are to come to the collective of a party: who names a process group that the others
    do not name waits for its members, and one of these may be a rank that is in no collective. Several that name one
    may be all its members; of one rank alone nobody makes a group."""
    named = group_of(party[0])
    if not named or named in map(group_of, others):
        return PROVED
    members = members_of(party[0].evidence.sources, named)
    lacks_some = any(other.rank in members for other in others) if members else len(party) == 1
    return LIKELY if lacks_some and all(map(waits, others)) else POSSIBLE


def is_complete(party: Sequence[Rank], let_in: Sequence[Rank]) -> bool:
    """Whether all members of the process group that a party's call names are let in where it is called: then nobody
    else is to come there, and what keeps them is no condition around that line."""
    members = members_of(party[0].evidence.sources, group_of(party[0]))
    return bool(members) and members <= {rank.rank for rank in let_in}
