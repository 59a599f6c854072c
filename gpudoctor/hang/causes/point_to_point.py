"""Ranks that wait in a send or a receive for one that waits for them: by the peer that the call's own line names."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from gpudoctor.hang.causes import LIKELY, POSSIBLE, SEEN, HangCause, HangJob, Rank, Seen, blame
from gpudoctor.hang.conditions import name_of, number, parsed
from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.parted import COLLECTIVE, group_of
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.rank_conditions import is_rank
from gpudoctor.hang.relation import group_argument, source_at
from gpudoctor.hang.variables import by_rounds, furthest_behind, held_at
from gpudoctor.hang.words import place_words, process_of, ranks_of, stacks_of, waiting_words, who
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot.evidence import Collective, Frame
from gpudoctor.sure import BEST

HANDLE = "Work.wait"
_PEER = {"recv": "src", "irecv": "src", "send": "dst", "isend": "dst"}
MOST_PARTIES = 4
_WORLD = lazy_re(r"(?:get_)?world_size|num_processes", re.I)


def do_not_pair(job: HangJob) -> Iterator[HangCause]:
    """Each in a circle receives from the next, or each sends; or one receives from a rank that has gone on to a
    collective of all, in which that rank waits for the first."""
    progress = progress_of(job)
    if progress.verdict != "stuck" or progress.away or progress.ended or job.missing:
        return
    by_number = {rank.rank: rank for rank in progress.waiting}
    peers = {own: peer for own, rank in by_number.items() if (peer := peer_of(rank, job.world_size)) is not None}
    named = {own: peer for own, peer in peers.items() if by_number[own].place.operation != HANDLE}
    for ranks in _circles(named):
        circle = [by_number[each] for each in ranks if each in by_number]
        if len(circle) == len(ranks) and len({rank.place.operation for rank in circle}) == 1:
            doing = "to receive from" if circle[0].place.operation.endswith("recv") else "to send to"
            yield blame(
                "p2p-order",
                SEEN,
                circle,
                f"{who(circle, 'waits', 'wait')} {doing} each other, each in {circle[0].place.operation}, and nobody "
                f"has come to the other half; {waiting_words(circle)}",
                stacks_of(circle),
                at=circle[0].place.user_frame,
            )
            return
    left = {peer for peer in peers.values() if peer in by_number and _waits_for_all(by_number[peer])}
    for peer in sorted(left):
        one, others = by_number[peer], [by_number[own] for own, its in peers.items() if its == peer]
        if len(others) == 1 and (count := _more(others[0], one)):
            yield blame(
                "p2p-order",
                LIKELY,
                others,
                f"{waiting_words(others)} for rank {peer}, and {waiting_words([one])}: since the collective before, "
                f"{ranks_of(others)} has begun {count}",
                (*stacks_of(others), *stacks_of([one])),
                at=others[0].place.user_frame,
            )
            continue
        yield blame(
            "p2p-order",
            LIKELY,
            [one],
            f"{waiting_words(others)} for rank {peer}, which has gone on without: {waiting_words([one])}, and "
            f"{who(others, 'has', 'have')} to come there",
            (*stacks_of([one]), *stacks_of(others)),
            at=one.place.user_frame,
        )


def _more(own: Rank, other: Rank) -> str:
    """Who waits to receive, and has sent more since its last collective of all than the other one has taken before the
    next, has made an exchange more; else that one has left its half out. "": not told by their recorders."""
    halves = ("send", "recv") if own.place.operation.endswith("recv") else ("recv", "send")
    entries = own.evidence.recorder.entries if own.evidence.recorder is not None else ()
    last = next((each for each in reversed(entries) if not each.point_to_point), None)
    mine, its = _between(own, halves[0], other.rank, last), _between(other, halves[1], own.rank, last)
    if mine is None or its is None or mine <= its:
        return ""
    return f"{halves[0]} with rank {other.rank} {counted(mine, 'time')}, and that {halves[1]} {counted(its, 'time')}"


def _between(rank: Rank, operation: str, peer: int, last: Collective | None) -> int | None:
    """How often a rank has sent to, or received from, another one between this collective and the next."""
    entries = rank.evidence.recorder.entries if rank.evidence.recorder is not None else ()
    wanted = (last.group, last.sequence) if last is not None else None
    begin = next(
        (at for at, each in enumerate(entries) if not each.point_to_point and (each.group, each.sequence) == wanted),
        None,
    )
    if begin is None:
        return None
    between = takewhile(lambda each: each.point_to_point, entries[begin + 1 :])
    return sum(each.operation == operation and each.peer == peer for each in between)


def peer_of(rank: Rank, world: int) -> int | None:
    """The rank with which the call of a line exchanges, by its text and the variables there; None where it is not told,
    or counts in a group."""
    context = source_at(rank, rank.place.user_frame)
    frame = rank.place.user_frame
    if world == 2 and waits_for_exchange(rank):
        return 1 - rank.rank
    if rank.place.kind != "point-to-point" or context is None or frame is None or group_argument(context.text):
        return None
    wanted = _PEER.get(rank.place.operation)
    tree = parsed(context.text.partition(" = ")[2]) or parsed(context.text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    call = next((node for node in calls if name_of(node) == rank.place.operation), None)
    if wanted is None or call is None or len(call.args) > 2:  # the third is a group
        return None
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    argument = named.get(wanted, call.args[1] if len(call.args) > 1 else None)
    values = held_at(rank, frame)

    def known(node: ast.expr) -> float | None:
        if isinstance(node, ast.Name) and values.get(node.id, "").isdecimal():
            return int(values[node.id])
        return rank.rank if is_rank(node) else world if _WORLD.fullmatch(name_of(node)) else None

    peer = number(argument, known) if argument is not None else None
    return int(peer) if peer is not None and 0 <= peer < world and peer != rank.rank else None


def waits_for_exchange(rank: Rank) -> bool:
    """Whether it waits for the handle of a send or a receive: in a function that makes no other collectives."""
    context = source_at(rank, rank.place.user_frame)
    calls = {call.kind for call in context.calls} if context is not None else set()
    return rank.place.operation == HANDLE and bool(calls) and calls <= EXCHANGES


EXCHANGES = frozenset(("P2POp", "isend", "irecv", "send", "recv", "batch_isend_irecv"))


def _circles(peers: Mapping[int, int]) -> Iterator[Sequence[int]]:
    """Ranks each of which waits for the next, and the last for the first."""
    for start in sorted(peers):
        way = [start]
        while (after := peers.get(way[-1])) is not None and after not in way:
            way.append(after)
        if after == start and start == min(way):
            yield way


def _waits_for_all(rank: Rank) -> bool:
    return rank.place.kind in COLLECTIVE and not group_of(rank)


def face_to_face(job: HangJob) -> Iterator[HangCause]:
    """Ranks that all send, or all receive: each waits for the other half."""
    progress = progress_of(job)
    pairs = [rank for rank in progress.waiting if rank.place.kind == "point-to-point"]
    if progress.verdict not in ("stuck", "held") or len(pairs) < 2 or progress.stopped or progress.ended:
        return
    operations = {operation for rank in pairs for operation in _open_halves(rank) or (rank.place.operation,)}
    one_way = operations <= {"send", "isend"} or operations <= {"recv", "irecv"}
    sure = POSSIBLE
    # Of neighbours in several rounds one has parted before, and the others wait for it in turn.
    if len(pairs) == len(job.ranks) and not job.missing and (one_way or not furthest_behind(pairs)):
        sure = SEEN if one_way else LIKELY  # with one way only, nobody is on the other side
    doing = "send" if "send" in next(iter(operations)) else "receive"
    lines = list(dict.fromkeys(f"{ranks_of([rank])} {place_words(rank.place)}" for rank in pairs[:MOST_PARTIES]))
    yield blame(
        "p2p-order",
        sure,
        pairs,
        f"all ranks wait to {doing}: " * one_way
        + "; ".join(lines)
        + (f" and {len(pairs) - MOST_PARTIES} more" if len(pairs) > MOST_PARTIES else ""),
        [Seen(f"{process_of(rank)} stack", place_words(rank.place)) for rank in pairs[:8]],
        at=pairs[0].place.user_frame,
    )


def half_left_out(job: HangJob) -> Iterator[HangCause]:
    """All wait for an exchange of one function, one half of which stands under a condition of each rank's own."""
    progress = progress_of(job)
    waiting = progress.waiting
    if progress.verdict != "stuck" or progress.away or progress.ended or job.missing or len(waiting) < 2:
        return
    contexts = {rank.place.user_frame: source_at(rank, rank.place.user_frame) for rank in waiting}
    context = next(iter(contexts.values()))
    if len(contexts) != 1 or context is None or not all(map(_exchanges, waiting)):
        return
    halves = [call for call in context.calls if call.kind in EXCHANGES - {"batch_isend_irecv"}]
    own = [call for call in halves if call.text and not call.asks and not only_counts(call.text)]
    if not own or len({call.text for call in halves}) < 2:
        return
    rounds = by_rounds(waiting)
    # From neighbour to neighbour each waits for the one before: who is furthest began it, and is waited for at last.
    few = rounds[-1] if len(rounds) == len(waiting) > 2 else rounds[0] if rounds else waiting
    yield blame(
        "p2p-order",
        BEST,
        few,
        f"{waiting_words(waiting)}: of what is exchanged there, line {own[0].line} stands under `{own[0].text}`, which "
        "each rank finds for itself, and its other half does not",
        (*stacks_of(waiting), Seen(f"{context.file}:{own[0].line}", f"{own[0].kind}, if {own[0].text}")),
        at=Frame(context.function, context.file, own[0].line),
    )


def _exchanges(rank: Rank) -> bool:
    return waits_for_exchange(rank) or rank.place.kind == "point-to-point"


def _open_halves(rank: Rank) -> set[str]:
    """The sends and receives that a rank has open by its recorder: a batch of them is started as one."""
    recorder = rank.evidence.recorder
    entries = recorder.entries if recorder is not None else ()
    return {entry.operation for entry in entries if entry.point_to_point and entry.state != "completed"}


RULES = (do_not_pair, face_to_face, half_left_out)
