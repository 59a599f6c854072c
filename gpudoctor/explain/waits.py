"""Where each rank waited when the time was up, and what the pattern over the ranks says.

A watchdog's line, or a traceback out of a collective, comes from a rank that *waited*: the rank that it waited for is
another one. So first whoever is absent, then whoever is behind, then whoever does something else.
"""

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, structs

from gpudoctor.explain.absent import absent_by_name, counted_by_program, idle_ranks, silent, skipped
from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.deaths import Spoken, alive_at_the_end, ended_well, ranks_text
from gpudoctor.explain.order import Facts
from gpudoctor.explain.own_lines import last_words_of
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import Moment, ToldStack
from gpudoctor.explain.stacks import StackFrame
from gpudoctor.knowledge.calls import unlike_lines
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.sure import HINT, LIKELY, POSSIBLE

ONE_SIDED = frozenset(
    ["gather", "broadcast", "barrier", "scatter", "reduce", "gatherobject", "broadcastobjectlist", "allgatherobject"]
)
"""What code of one rank calls by mistake when it saves, evaluates or logs."""
MOST_LINES = 6


class Wait(Struct, frozen=True, kw_only=True):
    """A rank in a collective."""

    rank: int
    moment: Moment
    line: Line
    operation: str = ""
    """ "allreduce"."""
    sequence: int | None = None
    elements: int | None = None
    completed: int | None = None
    enqueued: int | None = None
    group: str = ""
    where: str = ""
    """ "train.py:30", of the user's code."""
    timed_out: bool = True
    """Its own time was up; else its connection was closed while it waited."""
    is_called: bool = False
    """The operation is what the program called; else what its backend made of it."""
    function: str = ""
    frames: tuple[StackFrame, ...] = ()
    """Of the user's code, innermost first, where the log tells the stack from which it was called."""
    in_backward: bool = False
    """A hook of torch's has started it in a backward pass."""
    backward: tuple[StackFrame, ...] = ()
    """The line of that backward pass, where it is the only one of the program, and those that call it."""
    is_whole: bool = True
    """Its stack begins with a module; else a hook of the program may have started it in a backward pass."""


def waits(facts: Facts, tracebacks: list[Spoken], aborted: Sequence[Spoken] = ()) -> list[Wait]:
    """One for each rank: the first that it says, completed by what the later lines add.

    `aborted`: tracebacks of ranks whose time was up before. They come from wherever the program was when it met the
    aborted communicator, which may be a later call; one that handles objects is still the one that waited."""
    seen: list[Wait] = []
    for event in facts.events:
        values = event.values
        if event.symptom.role != "consequence" or event.rank is None or not (values.keys() & WATCHDOG):
            continue
        if "sequence" not in values and named(values["operation"]) in PARTS_OF_ONE:
            continue
        seen.append(
            Wait(
                rank=event.rank,
                moment=event.moment,
                line=event.at,
                operation=named(values.get("operation", "")),
                sequence=_number(values.get("sequence")),
                elements=_number(values.get("numel_in")),
                completed=_number(values.get("last_completed")),
                enqueued=_number(values.get("last_enqueued")),
                group=values.get("group", ""),
            )
        )
    seen += [_of_stack(stack, stack.rank) for stack in facts.stacks if stack.rank is not None]
    for traceback in tracebacks:
        at = next((raised for raised in traceback.told.traceback.raised if raised.collective), None)
        if at is None or traceback.told.rank is None:
            continue
        if traceback in aborted:
            if not named(at.collective).endswith("object"):
                continue
        elif traceback.kind not in ("consequence", "communication"):
            continue
        seen.append(
            Wait(
                rank=traceback.told.rank,
                moment=traceback.told.moment,
                line=traceback.told.at,
                operation=named(at.collective),
                where=f"{at.file}:{at.at}",
                timed_out=traceback.waited,
                function=at.collective,
                frames=at.own,
            )
        )
    by_rank: dict[int, Wait] = {}
    for wait in seen:
        by_rank[wait.rank] = _completed(by_rank[wait.rank], wait) if wait.rank in by_rank else wait
    return [by_rank[rank] for rank in sorted(by_rank)]


def _of_stack(told_stack: ToldStack, rank: int) -> Wait:
    stack = told_stack.stack
    wait = Wait(rank=rank, moment=told_stack.moment, line=told_stack.at, operation=named(stack.collective))
    where = f"{stack.file}:{stack.at}" if stack.file else ""
    called = wait.operation != ""
    wait = structs.replace(wait, function=stack.collective, frames=stack.frames, in_backward=stack.by_hook)
    return structs.replace(wait, where=where, is_called=called, is_whole=stack.is_whole)


WATCHDOG = {"sequence", "operation"}
PARTS_OF_ONE = ("send", "recv")
"""What gloo names when a collective times out: the part of it that one rank had to do."""
BATCH = "batchisendirecv"
"""Sends and receives that are started as one: a batch has a number, and it is each rank's own."""


def _completed(first: Wait, later: Wait) -> Wait:
    if later.sequence is not None and first.sequence is not None and later.sequence != first.sequence:
        return first
    if later.group and first.group and later.group != first.group:
        return first
    called = next((wait for wait in (first, later) if wait.is_called), None)
    if called is None and first.operation and later.operation == f"{first.operation}object":
        called = later  # all_gather_object is an all_gather to its backend
    return structs.replace(
        first,
        operation=called.operation if called else first.operation or later.operation,
        sequence=first.sequence if first.sequence is not None else later.sequence,
        elements=first.elements if first.elements is not None else later.elements,
        completed=first.completed if first.completed is not None else later.completed,
        enqueued=first.enqueued if first.enqueued is not None else later.enqueued,
        group=first.group or later.group,
        where=(called.where if called else "") or first.where or later.where,
        timed_out=first.timed_out or later.timed_out,
        is_called=called is not None,
        function=first.function or later.function,
        frames=first.frames or later.frames,
        in_backward=first.in_backward or later.in_backward,
        is_whole=first.is_whole and later.is_whole,
    )


def named(operation: str) -> str:
    """One word for what torch calls all_reduce, ALLREDUCE and gloo:all_reduce."""
    return re.sub(r"[^a-z]", "", operation.lower().rpartition(":")[2]).removesuffix("coalesced").removesuffix("base")


def _number(text: str | None) -> int | None:
    return int(text) if text and len(text) < 19 and text.lstrip("-").isdecimal() else None


def pattern(found: list[Wait], facts: Facts, died: set[int]) -> list[Candidate]:
    """What the waiting ranks say together; nothing where a rank's death explains it."""
    if not any(wait.timed_out for wait in found):
        return []
    waiting = {wait.rank for wait in found}
    known = set(facts.ranks) | waiting | alive_at_the_end(facts)
    known |= {ended.rank for ended in facts.exits if ended.rank is not None} | counted_by_program(facts)
    if facts.world_size and facts.world_size <= 65_536:
        known |= set(range(facts.world_size))
    known |= skipped(known, of_whole_job=all(wait.group == DEFAULT_GROUP for wait in found))
    named_absent = absent_by_name(facts) - died
    absent = named_absent or known - waiting - died
    groups = Counter(wait.group for wait in found)
    if len(groups) > 1:
        most = groups.most_common(1)[0][0]
        found = [wait for wait in found if wait.group == most or not wait.group]
    if len(found) > 1 and not absent and {wait.operation for wait in found} < {*PARTS_OF_ONE}:
        return _crossed(found)
    if len(found) > 1 and (parted := different(found)):
        return parted
    if absent:
        return _absent(found, absent, facts)
    if len(found) > 1:
        return _together(found)
    return []


DEFAULT_GROUP = "0"
"""The group of all ranks."""


def _crossed(found: list[Wait]) -> list[Candidate]:
    """All of them receive, or all of them send: nobody does the other half."""
    first = min(found, key=lambda wait: wait.moment.line)
    half = "send" if first.operation == "recv" else "receive"
    summary = f"{ranks_text([wait.rank for wait in found])} all waited in {said(first)}, and none was there to {half}"
    return [candidate("p2p-order", LIKELY, first, summary, found, found)]


def _evidence(found: list[Wait]) -> tuple[Line, ...]:
    return tuple(wait.line for wait in found[:MOST_LINES])


def said(wait: Wait) -> str:
    """ "all_reduce 30 of 4 elements at train.py:9"."""
    words = wait.operation or "a collective"
    words += f" number {wait.sequence}" if wait.sequence is not None else ""
    if wait.elements is not None and wait.operation != "barrier":
        words += f" of {wait.elements} elements"
    return words + (f" at {wait.where}" if wait.where else "")


def different(found: list[Wait]) -> list[Candidate]:
    """Ranks that wait in different collectives."""
    first = min(found, key=lambda wait: wait.moment.line)
    places = {wait.sequence for wait in found if wait.sequence is not None}
    operations = Counter(wait.operation for wait in found if wait.operation)
    sizes = Counter(wait.elements for wait in found if wait.elements is not None)
    if len(places) > 1:
        return _apart(found, first)
    if len(operations) > 1:
        rare = operations.most_common()[-1][0]
        odd = [wait for wait in found if wait.operation == rare]
        rest = next(wait for wait in found if wait.operation not in ("", rare))
        if len(odd) * 2 == len(found) and not any(wait.rank == 0 for wait in odd):
            odd, rest = [wait for wait in found if wait.operation == rest.operation], odd[0]
        summary = (
            f"{ranks_text([wait.rank for wait in odd])} waited in {said(odd[0])}, rank {rest.rank} in {said(rest)}"
        )
        alone = [wait.rank for wait in odd] == [0] and odd[0].operation in ONE_SIDED
        if not alone and any(wait.operation == "barrier" for wait in odd):
            return _parted(odd, first, f"{summary}: they no longer take part in the same collectives", found)
        # Of one exchange, as far as sizes tell; else one of them may as well have left a step out.
        same = len(sizes) < 2 and len({wait.elements is None for wait in found}) == 1 and not alone
        order = candidate("collective-order-mismatch", LIKELY if same else POSSIBLE, first, summary, odd, found)
        divergent = candidate("rank-divergent-decision", HINT, first, summary, odd, found)
        one = candidate("rank0-only-collective", LIKELY if alone else HINT, first, summary, odd, found)
        return [order, divergent, one] if any(wait.rank == 0 for wait in odd) else [order, divergent]
    if len(sizes) > 1 and (single := [wait for wait in found if may_be_barrier(wait)]):
        return _barrier_or_number(found, single, first)
    if len(sizes) > 1:
        rare_size = sizes.most_common()[-1][0]
        odd = [wait for wait in found if wait.elements == rare_size]
        rest = next(wait for wait in found if wait.elements not in (None, rare_size))
        summary = (
            f"{ranks_text([wait.rank for wait in odd])} waited in {said(odd[0])}, rank {rest.rank} in {said(rest)}"
        )
        lines, ways = {wait.where for wait in found}, {wait.frames for wait in found}
        if unlike_lines(lines) or (() not in ways and unlike_lines(ways)):  # of one line, come to from several
            return _parted(odd, first, f"{summary}: they no longer take part in the same collectives", found)
        of_one_line = lines != {""} and all(wait.is_whole for wait in found)
        reduce = (
            odd[0].operation == "allreduce" and max(filter(None, (odd[0].elements, rest.elements)), default=0) > 1024
        )
        return [
            # Of one line, it is its tensor; where no line is told, or that of a hook, two calls may as well have met.
            candidate("shape-mismatch", LIKELY if of_one_line else POSSIBLE, first, summary, odd, found),
            candidate("rank-dependent-graph", HINT if not reduce else POSSIBLE, first, summary, odd, found),
            candidate("collective-order-mismatch", POSSIBLE, first, summary, odd, found),
        ]
    return []


def may_be_barrier(wait: Wait) -> bool:
    """ProcessGroupNCCL logs a barrier as what it makes of it: an all-reduce of one element."""
    return wait.operation == "allreduce" and wait.elements == 1 and not wait.is_called


def _barrier_or_number(found: list[Wait], single: list[Wait], first: Wait) -> list[Candidate]:
    """Some wait in what may be a barrier or the sum of one number, others in a larger sum: no mismatch of shapes.

    Why they parted, the log does not tell: a skipped step, fewer batches, code for one rank only."""
    rest = [wait for wait in found if wait not in single]
    odd = single if len(single) <= len(rest) else rest
    summary = (
        f"{ranks_text([wait.rank for wait in single])} waited in {said(single[0])}, which may be a barrier, rank "
        f"{rest[0].rank} in {said(rest[0])}: they no longer take part in the same collectives"
    )
    return _parted(odd, first, summary, found)


def _parted(odd: list[Wait], first: Wait, summary: str, found: list[Wait]) -> list[Candidate]:
    """A barrier met another operation: which of these made it so, the program has to tell."""
    causes = ("rank-divergent-decision", "uneven-inputs", "teardown-deadlock")
    if [wait.rank for wait in odd] == [0]:
        causes = ("rank0-only-collective", "rank-divergent-decision", "uneven-inputs")
    return [
        candidate(cause, HINT if number else POSSIBLE, first, summary, odd, found)
        for number, cause in enumerate(causes)
    ]


def _apart(found: list[Wait], first: Wait) -> list[Candidate]:
    """Different numbers: the rank that has completed least is behind."""
    if pairs := [wait for wait in found if wait.operation in (*PARTS_OF_ONE, BATCH)]:
        return _unpaired(found, pairs, first)
    numbered = [wait for wait in found if wait.sequence is not None]
    behind_at = min(wait.completed if wait.completed is not None else wait.sequence or 0 for wait in numbered)
    behind = [
        wait for wait in numbered if (wait.completed if wait.completed is not None else wait.sequence or 0) == behind_at
    ]
    ahead = max(numbered, key=lambda wait: wait.sequence or 0)
    summary = (
        f"{ranks_text([wait.rank for wait in behind])} waited in {said(behind[0])}, while rank {ahead.rank} waited in "
        f"{said(ahead)}"
    )
    if len({(wait.operation, wait.where) for wait in numbered}) == 1 and first.where:
        summary += ": the same call, which has ended on some ranks only"
        exchange = first.operation.startswith("alltoall")  # who gets what was meant for it goes on
        causes = ("shape-mismatch" if exchange else "ib-link-down", "nccl-bug", "xid-gpu-lost")
        ranks = [wait.rank for wait in behind]
        return _undecided(causes, POSSIBLE, first, summary, found, [ranks] * len(causes))
    summary += ": they no longer take part in the same collectives"
    return [
        candidate("rank-divergent-decision", LIKELY, first, summary, behind, found),
        candidate("collective-order-mismatch", POSSIBLE, first, summary, behind, found),
        candidate("uneven-inputs", POSSIBLE, first, summary, behind, found),
    ]


def _unpaired(found: list[Wait], pairs: list[Wait], first: Wait) -> list[Candidate]:
    """Some wait in a send or a receive: these are counted by themselves, so numbers do not tell who is behind."""
    rest = [wait for wait in found if wait not in pairs]
    few = pairs if not rest or len(pairs) <= len(rest) else rest
    alike = [wait.rank for wait in pairs if (wait.operation, wait.where) == (pairs[0].operation, pairs[0].where)]
    others = [f", rank {wait.rank} in {said(wait)}" for wait in (*pairs, *rest) if wait.rank not in alike]
    summary = f"{ranks_text(alike)} waited in {said(pairs[0])}{''.join(others[:MOST_LINES])}"
    if not rest:  # or what was sent does not arrive
        of_all = ("p2p-order", "rank-divergent-decision", "ib-link-down")
        everybody = [[wait.rank for wait in pairs]] * len(of_all)
        return _undecided(of_all, POSSIBLE, first, f"{summary}: nothing else is open", found, everybody)
    by = (first, f"{summary}: a send or receive has no other half", few, found)
    return [candidate("p2p-order", POSSIBLE, *by), candidate("rank-divergent-decision", HINT, *by)]


def _absent(found: list[Wait], absent: set[int], facts: Facts) -> list[Candidate]:
    """Some waited until the time was up, and others did not come."""
    first = min(found, key=lambda wait: wait.moment.line)
    heard = absent & (facts.ranks | alive_at_the_end(facts))
    missing = sorted(heard or absent)
    waiting = [wait.rank for wait in found]
    summary = f"{ranks_text(waiting)} waited in {said(first)}, and {ranks_text(missing)} did not come"
    gone = silent(facts, set(missing)) == set(missing) and set(missing) <= facts.ranks | counted_by_program(facts)
    if gone:
        summary += f". Who lives says that it was asked for its recorder, and {ranks_text(missing)} did not"
    elif not heard:
        summary += f"; there is no output of {'it' if len(missing) == 1 else 'them'} here"
    last, own = last_words_of(missing, facts.said_last)
    summary += last
    scalar = first.operation == "barrier" or (first.operation == "allreduce" and first.elements == 1)
    confirm = (
        f"Start it again and ask while it stands: gpudoctor hang shows where {ranks_text(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} instead; behind `gpudoctor run --` it is asked by itself."
    )
    forced = {ended.pid: ended for ended in facts.exits if ended.exit.forced and ended.rank in (None, *missing)}
    stubborn = list(forced.values())
    causes: tuple[str, ...]
    if len(stubborn) == len(missing):
        # Nothing in Python catches SIGTERM by itself, and a rank that lives answers when another one asks for dumps.
        summary += f". {counted(len(missing), 'process')} did not end when torchrun asked for it"
    if (gone or not heard) and len(stubborn) == len(missing):
        causes = ("stopped-rank", "kernel-wait")
        return _undecided(causes, LIKELY, first, summary, found, [missing, missing], stubborn[0].at)
    if gone and not facts.exits:  # no launcher that would have told of its end
        causes = ("rank-died", "stopped-rank", "uneven-inputs")
        return _undecided(causes, LIKELY, first, summary, found, [missing] * 3, own, confirm)
    if ended_well(facts, set(missing)) == set(missing):
        summary += f". torchrun lists all that failed or that it had to end, and not {ranks_text(missing)}: ended well"
        causes = ("rank-divergent-decision", "uneven-inputs")
    elif len(stubborn) == len(missing):
        causes = ("stopped-rank", "slow-rank-timeout", "kernel-wait")
    elif waiting == [0] and not set(missing) <= idle_ranks(facts):  # in a later collective they would be by now
        causes = ("rank0-only-collective", "slow-rank-timeout", "uneven-inputs")
    elif missing == [0]:
        causes = ("slow-rank-timeout", "rank-divergent-decision", "checkpoint-race")
    elif scalar:
        causes = ("slow-rank-timeout", "rank-divergent-decision", "rank-died")
    else:
        causes = ("slow-rank-timeout", "uneven-inputs", "rank-divergent-decision")
    ranks = [waiting if cause == "rank0-only-collective" else missing for cause in causes]
    return _undecided(causes, POSSIBLE, first, summary, found, ranks, own, confirm)


def _together(found: list[Wait]) -> list[Candidate]:
    """All ranks wait in the same collective: nobody is missing, so the data did not arrive."""
    first = min(found, key=lambda wait: wait.moment.line)
    summary = f"All {len(found)} ranks that are known here waited in the same {said(first)}: the data did not arrive"
    never = any(wait.completed is not None and wait.completed <= 0 for wait in found) or first.sequence in (0, 1)
    if not any(wait.sequence is not None for wait in found):  # a backend without numbers: it may be another step
        return _undecided(("firewall-ephemeral-ports", "wrong-nic"), HINT, first, summary, found)
    if never:
        causes = ("p2p-acs-iommu", "wrong-nic", "firewall-ephemeral-ports", "gpu-driver-p2p-bug")
        return _undecided(causes, POSSIBLE, first, summary, found)
    summary += ", or tensors are of unlike types, which torch does not tell"
    return _undecided(("nccl-bug", "xid-gpu-lost", "ib-link-down", "shape-mismatch"), HINT, first, summary, found)


def _undecided(
    causes: Sequence[str],
    confidence: float,
    first: Wait,
    summary: str,
    waiting: list[Wait],
    ranks: Sequence[Sequence[int]] = (),
    line: Line | None = None,
    confirm: str = "",
) -> list[Candidate]:
    """What else fits, the likeliest first: that one has the confidence, and the others are hints."""
    return [
        Candidate(
            cause=cause,
            confidence=HINT if number else confidence,
            standing="consequence",
            moment=first.moment,
            summary=summary,
            ranks=tuple(ranks[number]) if ranks else (),
            evidence=(*_evidence(waiting), *filter(None, (line,))),
            confirm=confirm,
        )
        for number, cause in enumerate(causes)
    ]


def candidate(cause: str, sure: float, first: Wait, summary: str, odd: list[Wait], waiting: list[Wait]) -> Candidate:
    return shown_by(cause, sure, first, summary, odd, [*odd[:2], *waiting])


def shown_by(
    cause: str, confidence: float, first: Wait, summary: str, culprits: Sequence[Wait], shown: Sequence[Wait]
) -> Candidate:
    """A cause with the ranks that it is of, and the waits whose lines show it."""
    return Candidate(
        cause=cause,
        confidence=confidence,
        standing="pattern",
        moment=first.moment,
        summary=summary,
        ranks=tuple(sorted(wait.rank for wait in culprits)),
        evidence=tuple(dict.fromkeys(wait.line for wait in shown))[:MOST_LINES],
    )


def places(found: list[Wait]) -> str:
    """For a sentence: "ranks 0 and 2 waited in allreduce at train.py:9"."""
    return listed(f"rank {wait.rank} waited in {said(wait)}" for wait in found)
