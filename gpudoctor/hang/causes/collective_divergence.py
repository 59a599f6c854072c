"""Ranks wait in different places of the program: who has left the common way, and where."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpudoctor.hang.causes.training_away import parties
from gpudoctor.hang.job import Job, Rank
from gpudoctor.hang.progress import Progress, progress_of
from gpudoctor.hang.recorders import words as collective_words
from gpudoctor.hang.relation import (
    RANK_WORDS,
    Relation,
    admits,
    branches_part,
    fork_of,
    guards_of,
    loop_around,
    passes_by,
    relation,
    source_at,
)
from gpudoctor.hang.report import HangCause, Seen, Where
from gpudoctor.hang.words import (
    at,
    confirm_for,
    entry_words,
    fix_for,
    numbers_of,
    place_words,
    ranks_of,
    stacks_of,
    verb,
    waiting_words,
    where,
    where_line,
)
from gpudoctor.knowledge.wording import ranges
from gpudoctor.snapshot.evidence import Enclosing, SourceContext

COLLECTIVE = ("collective", "backward", "cuda sync", "communicator init")
WITH_RECORDER = 0.1
"""How much surer a flight recorder that shows the same makes."""


class Parted(NamedTuple):
    """The job in two: those that wait in the largest party, and one party that is elsewhere."""

    waiting: list[Rank]
    other: list[Rank]
    relation: Relation
    """Of `other`, seen from `waiting`."""


def _standing(job: Job) -> tuple[Progress, list[list[Rank]], list[list[Rank]]] | None:
    """Progress, the parties that wait in collectives (the largest first), and all others."""
    progress = progress_of(job)
    if progress.verdict not in ("stuck", "held", "starting", "unknown") or not progress.waiting:
        return None
    if progress.verdict == "unknown" and not any(motion == "still" for motion in progress.motions):
        return None
    waiting = [rank for rank in progress.waiting if rank.place.kind in COLLECTIVE]
    largest_first = sorted(parties(waiting), key=lambda party: (-len(party), party[0].rank))
    return progress, largest_first, parties(progress.away)


def guarded(job: Job) -> Iterator[HangCause]:
    """A collective under a condition on the rank that not all ranks meet, and that no other line pairs with."""
    if (standing := _standing(job)) is None:
        return
    progress, waiting, away = standing
    if len(waiting) + len(away) < 2 and not (progress.ended or progress.stopped or job.missing):
        return
    for party in waiting:
        if party[0].place.kind == "backward":
            continue
        found = _rank_guard(party[0], job)
        if found is None:
            continue
        statement, context, confidence = found
        if any(_in_other_branch(context, each[0]) for each in waiting if each is not party):
            continue  # both branches have their collectives: within_the_loop tells how they differ
        let_in = [rank for rank in job.ranks if admits(statement, _number_in(statement, rank)) is True]
        culprits = party
        if let_in and len(let_in) * 2 > len(job.ranks):
            culprits = [rank for rank in job.ranks if admits(statement, _number_in(statement, rank)) is False] or party
        others = [rank for group in (*waiting, *away) if group is not party for rank in group]
        operation = party[0].place.operation or "a collective"
        recorded = _recorded(job, party)
        yield HangCause(
            cause="rank0-only-collective",
            confidence=confidence,
            ranks=numbers_of(culprits),
            where=where(party[0].place.user_frame),
            evidence=(
                *stacks_of(party),
                Seen(f"{context.file}:{statement.line}", f"{statement.kind} {statement.text}"),
                *stacks_of(others),
                *recorded,
            ),
            summary=f"{ranks_of(party)} {verb(party, 'waits', 'wait')} in {operation}{at(party[0].place.user_frame)}, "
            f"which only {ranks_of(let_in or party)} {verb(let_in or party, 'reaches', 'reach')} "
            f"({statement.kind} {statement.text}, line {statement.line})"
            + (f"; {_where_they_are(others)}" if others else ""),
            fix=fix_for("rank0-only-collective"),
            confirm="" if confidence >= 0.9 else confirm_for("rank0-only-collective"),
        )


def _rank_guard(rank: Rank, job: Job) -> tuple[Enclosing, SourceContext, float] | None:
    """The condition that keeps other ranks from where a rank waits; None where another line may pair with it."""
    for guard in guards_of(rank):
        statement, context = guard.statement, guard.source
        verdicts = {admits(statement, _number_in(statement, each)) for each in job.ranks}
        world = {admits(statement, number) for number in range(min(job.world_size, 4))}
        if verdicts | world == {True}:
            continue
        if guard.frame == rank.place.user_frame and _pairs(context, statement, rank.place.operation):
            return None
        return statement, context, 0.95 if None not in verdicts else 0.8
    return None


def _in_other_branch(context: SourceContext, other: Rank) -> bool:
    """Whether another rank waits below the other branch of a condition around a line."""
    return any(
        branches_part(context, each)
        for each in other.evidence.sources
        if (each.file, each.function) == (context.file, context.function)
    )


def _pairs(context: SourceContext, statement: Enclosing, operation: str) -> bool:
    """Whether the function calls the same operation under another condition on the rank: the other branch, or the
    second half of "let one rank go first"."""
    for call in context.calls:
        if call.kind != operation or call.line == context.line:
            continue
        own = f"not ({statement.text})" if statement.kind == "else" else statement.text
        if call.text != own and RANK_WORDS.search(call.text):
            return True
    return False


def _number_in(statement: Enclosing, rank: Rank) -> int:
    """The number that a condition asks for: the local rank, or the rank."""
    if "local" in statement.text.lower() and rank.local_rank is not None:
        return rank.local_rank
    return rank.rank


def _where_they_are(ranks: Sequence[Rank]) -> str:
    first = [rank for rank in ranks if _same(rank, ranks[0])]
    more = len(ranks) - len(first)
    text = f"{ranks_of(first)} {verb(first, 'is', 'are')} {place_words(first[0].place)}"
    return text + (f", {more} more elsewhere" if more else "")


def _same(one: Rank, other: Rank) -> bool:
    return (one.place.kind, one.place.user_frame) == (other.place.kind, other.place.user_frame)


def parted(job: Job) -> list[Parted]:
    """Pairs of the largest waiting party and each other one that may have left it."""
    if (standing := _standing(job)) is None:
        return []
    _, waiting, away = standing
    if not waiting:
        return []
    first = waiting[0]
    others = [*waiting[1:], *(party for party in away if party[0].place.kind in ("exit", "user code", "sleep"))]
    found = []
    for other in others:
        how = relation(first[0], other[0])
        back = relation(other[0], first[0])
        if back == "past the loop" and how != "past the loop":
            found.append(Parted(other, first, back))
        else:
            found.append(Parted(first, other, how))
    return found


def left_the_loop(job: Job) -> Iterator[HangCause]:
    """Some ranks are past the loop in which others wait: they had fewer steps, or left it for a reason of their own."""
    for pair in parted(job):
        if pair.relation != "past the loop":
            continue
        stays, left = pair.waiting, pair.other
        if _rank_guard(stays[0], job) is not None or _guarded_away(left, job):
            continue
        context = _loop_source(stays[0], left[0])
        loop = loop_around(context)
        exits = passes_by(context) if context is not None else ()
        goes_round = [each for each in exits if each.kind in ("continue", "pass")]
        leaves = [each for each in exits if each.kind in ("break", "return")]
        culprits = left if len(left) <= len(stays) or goes_round or leaves else stays
        line = goes_round[0] if goes_round else leaves[0] if leaves else None
        recorded = _recorded(job, left)
        sure = WITH_RECORDER if recorded else 0.0
        uneven = 0.45 if goes_round else 0.55 if leaves else 0.8 if loop is not None else 0.6
        if context is not None and line is not None:
            confidence = 0.8 if goes_round else 0.6
            yield _divergent(left, stays, context, line, confidence + sure, recorded)
        yield HangCause(
            cause="uneven-inputs",
            confidence=uneven + (sure if line is None else 0.0),
            ranks=numbers_of(culprits),
            where=where(left[0].place.user_frame)
            or (Where(context.file, loop.line, context.function) if context is not None and loop is not None else None),
            evidence=(
                *stacks_of(left),
                *stacks_of(stays),
                *(
                    (Seen(f"{context.file}:{loop.line}", f"{loop.kind} {loop.text}"),)
                    if context is not None and loop is not None
                    else ()
                ),
                *recorded,
            ),
            summary=f"{ranks_of(left)} {verb(left, 'is', 'are')} through with the loop"
            + (f" at line {loop.line}" if loop is not None else "")
            + f" and {verb(left, 'stands', 'stand')} {place_words(left[0].place)}; "
            + waiting_words(stays),
            fix=fix_for("uneven-inputs"),
            confirm=confirm_for("uneven-inputs"),
        )


def _guarded_away(left: Sequence[Rank], job: Job) -> bool:
    """Whether those that left wait in a collective that only they reach: `guarded` names that."""
    return left[0].place.kind in COLLECTIVE and _rank_guard(left[0], job) is not None


def _loop_source(stays: Rank, left: Rank) -> SourceContext | None:
    """What the program says around the line at which the ranks part, or else around the innermost line in a loop."""
    fork = fork_of(stays, left)
    if fork is not None and fork.one_source is not None:
        return fork.one_source
    for frame in stays.place.user_frames:
        context = source_at(stays, frame)
        if loop_around(context) is not None:
            return context
    return None


def _divergent(
    culprits: Sequence[Rank],
    stays: Sequence[Rank],
    context: SourceContext,
    line: Enclosing,
    confidence: float,
    recorded: Sequence[Seen],
) -> HangCause:
    condition = f" ({line.text})" if line.text else ""
    passes = {
        "continue": f"`continue` in line {line.line}{condition} passes",
        "pass": f"an exception that is swallowed in line {line.line}{condition} passes",
        "break": f"`break` in line {line.line}{condition} leads past",
        "return": f"`return` in line {line.line}{condition} leads past",
    }.get(line.kind, f"line {line.line}{condition} passes")
    operation = stays[0].place.operation or "the collective"
    return HangCause(
        cause="rank-divergent-decision",
        confidence=min(confidence, 0.95),
        ranks=numbers_of(culprits),
        where=where_line(context, line),
        evidence=(
            *stacks_of(culprits),
            *stacks_of(stays),
            Seen(f"{context.file}:{line.line}", f"{line.kind} {line.text}".rstrip()),
            *recorded,
        ),
        summary=f"{ranks_of(culprits)} {verb(culprits, 'has', 'have')} not made every {operation}"
        f"{at(stays[0].place.user_frame)}: {passes} it by; {waiting_words(stays)}",
        fix=fix_for("rank-divergent-decision"),
        confirm="" if confidence >= 0.9 else confirm_for("rank-divergent-decision"),
    )


def within_the_loop(job: Job) -> Iterator[HangCause]:
    """Ranks wait at different collectives of the same code: by branch, by decision, by order, or past a backward."""
    for pair in parted(job):
        first, other = pair.waiting, pair.other
        past_backward = first[0].place.kind == "backward" and pair.relation == "later in the loop"
        if pair.relation == "past the loop" or not (past_backward or other[0].place.kind in COLLECTIVE):
            continue
        fork = fork_of(first[0], other[0])
        here, there = (fork.one_source, fork.other_source) if fork is not None else (None, None)
        if here is not None and there is not None and branches_part(here, there) and other[0].place.kind in COLLECTIVE:
            yield _order(job, first, other, here, there)
            continue
        if _rank_guard(first[0], job) is not None or _guarded_away(other, job):
            continue
        if (first[0].place.kind == "backward") != (other[0].place.kind == "backward"):
            yield from _past_backward(job, pair)
            continue
        if other[0].place.kind not in COLLECTIVE:
            continue
        context = here or source_at(first[0], first[0].place.user_frame)
        exits = passes_by(context) if context is not None else ()
        recorded = _recorded(job, other)
        small, large = (other, first) if len(other) <= len(first) else (first, other)
        if context is not None and exits:
            sure = WITH_RECORDER if recorded else 0.0
            yield _divergent(small, large, context, exits[0], 0.7 + sure, recorded)
            continue
        guard = _own_guard(there) or _own_guard(here)
        confidence = 0.7 if guard is not None else 0.45
        yield HangCause(
            cause="rank-divergent-decision",
            confidence=confidence,
            ranks=numbers_of(small),
            where=where(small[0].place.user_frame),
            evidence=(*stacks_of(small), *stacks_of(large), *recorded),
            summary=f"{waiting_words(small)}"
            + (f", under `{guard.kind} {guard.text}` in line {guard.line}" if guard is not None else "")
            + f"; {waiting_words(large)}",
            fix=fix_for("rank-divergent-decision"),
            confirm=confirm_for("rank-divergent-decision"),
        )
        if guard is None:
            yield HangCause(
                cause="collective-order-mismatch",
                confidence=0.4,
                ranks=numbers_of(small),
                where=where(small[0].place.user_frame),
                evidence=(
                    *stacks_of(small),
                    *stacks_of(large),
                ),
                summary=f"{waiting_words(small)}; {waiting_words(large)}",
                fix=fix_for("collective-order-mismatch"),
                confirm=confirm_for("collective-order-mismatch"),
            )


def _own_guard(context: SourceContext | None) -> Enclosing | None:
    """The innermost condition around a line, inside its loop."""
    if context is None:
        return None
    for each in context.enclosing:
        if each.kind in ("for", "while", "function"):
            return None
        if each.kind in ("if", "elif", "else", "except"):
            return each
    return None


def _past_backward(job: Job, pair: Parted) -> Iterator[HangCause]:
    """Some wait in backward for gradients that others, which are through with it, have not sent."""
    first, other = pair.waiting, pair.other
    waits_in, left = (first, other) if first[0].place.kind == "backward" else (other, first)
    context = source_at(waits_in[0], waits_in[0].place.user_frame)
    exits = [each for each in (passes_by(context) if context else ()) if each.kind in ("continue", "pass")]
    recorded = _recorded(job, left)
    if context is not None and exits:
        yield _divergent(left, waits_in, context, exits[0], 0.7, recorded)
    evidence = (*stacks_of(left), *stacks_of(waits_in), *recorded)
    how = relation(waits_in[0], left[0])
    sure = 0.75 if how == "later in the loop" else 0.55 if how == "later" and context is not None else 0.4
    if sure < 0.5:  # without the program's text it may as well have left the loop
        yield _left_perhaps(left, waits_in, evidence)
    told = f"{waiting_words(waits_in)}; {ranks_of(left)} {verb(left, 'is', 'are')} {place_words(left[0].place)}"
    yield HangCause(
        cause="unused-parameters",
        confidence=sure - (0.2 if exits else 0.0),
        ranks=numbers_of(left),
        where=where(left[0].place.user_frame),
        evidence=evidence,
        summary=f"{told}, without gradients of all parameters",
        fix=fix_for("unused-parameters"),
        confirm=confirm_for("unused-parameters"),
    )
    yield HangCause(
        cause="rank-dependent-graph",
        confidence=min(0.45, sure - 0.1),
        ranks=numbers_of(left),
        where=where(left[0].place.user_frame),
        evidence=evidence,
        summary=f"{told}: the graph may differ from rank to rank",
        fix=fix_for("rank-dependent-graph"),
        confirm=confirm_for("rank-dependent-graph"),
    )


def _left_perhaps(left: Sequence[Rank], stays: Sequence[Rank], evidence: tuple[Seen, ...]) -> HangCause:
    return HangCause(
        cause="uneven-inputs",
        confidence=0.4,
        ranks=numbers_of(left),
        where=where(left[0].place.user_frame),
        evidence=evidence,
        summary=f"{waiting_words(stays)}; {ranks_of(left)} {verb(left, 'is', 'are')} "
        f"{place_words(left[0].place)}, perhaps with fewer batches",
        fix=fix_for("uneven-inputs"),
        confirm=confirm_for("uneven-inputs"),
    )


def _order(
    job: Job, first: Sequence[Rank], other: Sequence[Rank], here: SourceContext, there: SourceContext
) -> HangCause:
    """Two branches of one condition. Each that calls what the other waits in makes it a matter of order."""
    own, theirs = first[0].place.operation, other[0].place.operation
    calls = [call for context in (here, there) for call in context.calls]
    both = (
        own != theirs and sum(call.kind == own for call in calls) > 1 and sum(call.kind == theirs for call in calls) > 1
    )
    in_groups = own == theirs and group_argument(here.text) != group_argument(there.text)
    recorded = _recorded(job, other)
    small, large = (other, first) if len(other) <= len(first) else (first, other)
    context = there if small is other else here
    guard = _own_guard(context)
    asks_rank = guard is not None and RANK_WORDS.search(guard.text) is not None
    name = "collective-order-mismatch" if both or own == theirs or asks_rank else "rank-divergent-decision"
    # A broadcast in both branches, of what the one has and the other receives, is how it is done.
    confidence = 0.88 if both else 0.8 if in_groups else 0.3 if own == theirs else 0.75
    confidence += 0.05 if recorded else 0.0
    return HangCause(
        cause=name,
        confidence=confidence,
        ranks=numbers_of(small),
        where=where(small[0].place.user_frame),
        evidence=(
            *stacks_of(small),
            *stacks_of(large),
            *((Seen(f"{context.file}:{guard.line}", f"{guard.kind} {guard.text}"),) if guard is not None else ()),
            *recorded,
        ),
        summary=f"{waiting_words(small)}; {waiting_words(large)}: two branches of one condition"
        + (" call them in different orders" if name == "collective-order-mismatch" and own != theirs else "")
        + (", and name different process groups" if in_groups else ""),
        fix=fix_for(name),
        confirm="" if confidence >= 0.9 else confirm_for(name),
    )


def group_argument(text: str) -> str:
    """What a call names as its process group: "tensor_parallel" of `dist.all_reduce(x, group=tensor_parallel)`."""
    found = re.search(r"\b(?:group|process_group)\s*=\s*([\w.\[\]()]+?)\s*[,)]", text)
    return found[1] if found else ""


def _recorded(job: Job, suspects: Sequence[Rank]) -> tuple[Seen, ...]:
    """What flight recorders say, where it blames the same ranks."""
    split = job.agreement.first if job.agreement is not None else None
    if split is None:
        return ()
    numbers = {rank.rank for rank in suspects}
    if split.kind == "missing" and numbers & set(split.behind):
        text = f"{ranks_of(split.behind)} {verb(split.behind, 'has', 'have')} not come to "
        text += collective_words(split.parties[0][1]) if split.parties else f"#{split.sequence} in group {split.group}"
        return (Seen("flight recorder", text),)
    if split.kind in ("operation", "shape", "dtype"):
        return tuple(
            Seen(f"flight recorder of ranks {ranges(ranks)}", entry_words(entry)) for ranks, entry in split.parties[:3]
        )
    return ()


RULES = (guarded, left_the_loop, within_the_loop)
