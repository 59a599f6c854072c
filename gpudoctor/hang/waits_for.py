"""Who waits for whom, over all process groups of a job, by its flight recorders: the ranks at which the chains end.

A rank waits in what it has issued and has not ended. Each such operation leads to the ranks of its group that have not
issued it, and to those that have and stand in something before it: a GPU takes its work in order. So chains go through
sends and receives, and through groups of any kind, from rank to rank. They end

| at a rank | that |
|---|---|
| away | has not issued what others wait in, and waits in nothing itself: it is somewhere in its program |
| stuck | has issued what its peers have ended, or begun, and has not: its GPU stands, whatever its program does |
| unseen | left no recorder, or one that has lost that group |
| ring | waits for ranks that wait for it |

or at an operation that all have issued and nobody has ended, which names no rank.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.snapshot.evidence import Collective, Recorder

Why = Literal["away", "stuck", "unseen", "ring"]
Key = tuple[object, ...]
"""Of an operation: the group, and the number of a collective; or who sends what to whom."""
IN_FLIGHT = 5.0
"""Seconds: what was issued so shortly before its recorder was written may be on its way. Our rule of thumb; a step of a
pipeline takes less, and the shortest time-out that ends a job more."""
ONE_MOMENT = 30.0
"""Seconds between two recorders up to which what one has ended, and the other not, is told of one moment: at a time-out
all ranks are made to write theirs, which takes seconds."""
MOST_ENDS = 64
NOT_TOGETHER = frozenset({"broadcast", "reduce", "gather", "scatter", "send", "recv", "coalesced"})
"""One rank may have ended these before another one has come; of all else, who has ended it has met everybody."""
OTHER_END = {"send": "recv", "recv": "send"}


class GroupOps(NamedTuple):
    """What the recorders have of one group."""

    key: str
    description: str
    ranks: tuple[int, ...]
    positions: Mapping[int, int]
    """Rank -> the last collective that it has issued; without those of which that is not known."""
    collectives: Mapping[int, Sequence[Collective]]
    pairs: Mapping[int, Sequence[Collective]]


class ChainEnd(Struct, frozen=True, kw_only=True):
    """A rank at which chains end."""

    rank: int
    why: Why
    group: str
    description: str = ""
    """The group's."""
    entry: Collective
    """What others wait in for it; where it is stuck, what it is stuck in."""
    last: Collective | None = None
    """The last that it has issued: from there it went where it is."""
    chains: int = 0
    """Ranks whose waits end at it."""
    went_on: bool = False
    """It waits for others too, in something after which it has ended more: its program need not stand there."""


class WaitsFor(Struct, frozen=True, kw_only=True):
    suspects: tuple[ChainEnd, ...] = ()
    """Those that most chains end at come first."""
    waiting: tuple[int, ...] = ()
    """Ranks that have issued something that has not ended."""
    halted: tuple[ChainEnd, ...] = ()
    """Ranks that wait for others too, and whose peers wait in just the same and went on: they may be away as well, or
    ask their GPU for a value that the others do not ask for."""
    in_flight: bool = False
    """All that has not ended was issued just before it was written down: nothing says that it stands."""


class _Operation:
    __slots__ = ("before", "description", "group", "held", "missing", "unknown", "waiting")

    def __init__(self, group: GroupOps) -> None:
        self.group, self.description = group.key, group.description
        self.waiting: dict[int, Collective] = {}
        self.missing: set[int] = set()
        self.before: set[int] = set()
        """Ranks that have issued it, and stand in something before it."""
        self.unknown: set[int] = set()
        self.held: set[int] = set()
        """Ranks in `waiting` whose peers have ended it, or begun it where they have not."""

    def leads_to(self) -> set[int]:
        waited_for = self.missing | self.before
        return waited_for or (self.unknown if not self.held else set())


def waits_for(recorders: Mapping[int, Recorder], groups: Sequence[GroupOps]) -> WaitsFor:
    """The chains and their ends. Linear in the number of entries and of waits."""
    first = {
        rank: collective for rank, recorder in recorders.items() if (collective := first_open(recorder)) is not None
    }
    if not first:
        return WaitsFor()
    waiting = tuple(sorted(first))
    if all(_is_young(recorders[rank], first[rank]) for rank in waiting):
        return WaitsFor(waiting=waiting, in_flight=True)
    first = {rank: _LOST if _is_cut(recorders[rank]) else entry for rank, entry in first.items()}
    operations: dict[Key, _Operation] = {}
    for number, group in enumerate(groups):
        operations |= _collectives(number, group, recorders, first)
        operations |= _pairs(number, group, recorders, first)
    stuck: dict[int, tuple[_Operation, Collective]] = {}
    for operation in operations.values():
        for rank in sorted(operation.held):
            if _is_young(recorders[rank], operation.waiting[rank]):
                continue
            stuck.setdefault(rank, (operation, operation.waiting[rank]))
    graph = _Graph(operations, frozenset(stuck), first)
    suspects: list[ChainEnd] = []
    for end in graph.ends():
        ranks = sorted(node for node in end if isinstance(node, int))
        if not ranks:
            continue
        chains = len(graph.waiters_of(ranks) - set(ranks))
        if len(ranks) > 1:
            suspects += _of_ring(ranks, graph, recorders, chains)
        elif ranks[0] not in stuck and (by := graph.asked_of(ranks[0])) is not None:
            # One that has something open, and yet leads nowhere, has lost what it stands in.
            seen = ranks[0] in recorders and ranks[0] not in by.unknown and ranks[0] not in first
            why: Why = "away" if seen else "unseen"
            suspects.append(_suspect(ranks[0], why, by, chains))
    for rank, (operation, entry) in list(stuck.items())[:MOST_ENDS]:
        chains = len(graph.waiters_of([rank]) - {rank})
        suspects.append(_suspect(rank, "stuck", operation, chains, entry=entry))
    suspects = [replace(suspect, last=_last(recorders.get(suspect.rank))) for suspect in suspects]
    suspects.sort(key=lambda chain_end: (chain_end.why == "unseen", -chain_end.chains, chain_end.rank))
    ends = {suspect.rank for suspect in suspects}
    halted = tuple(_halted(operations, recorders, ends)) if suspects else ()
    return WaitsFor(suspects=tuple(suspects), waiting=waiting, halted=halted)


def _suspect(
    rank: int, why: Why, operation: _Operation, chains: int, *, entry: Collective | None = None, went_on: bool = False
) -> ChainEnd:
    return ChainEnd(
        rank=rank,
        why=why,
        group=operation.group,
        description=operation.description,
        entry=entry or operation.waiting[min(operation.waiting)],
        chains=chains,
        went_on=went_on,
    )


def _halted(
    operations: Mapping[Key, _Operation], recorders: Mapping[int, Recorder], ends: set[int]
) -> Iterator[ChainEnd]:
    ended = set(ends)
    opens: dict[int, frozenset[Key]] = {}
    for operation in operations.values():
        for rank in sorted(operation.missing - ended):
            peers = [each for each in list(operation.waiting)[:MOST_ENDS] if each not in ends]
            for each in (rank, *peers):
                if each not in opens:
                    collectives = [entry for entry in recorders[each].entries if entry.state != "completed"]
                    names = {group.key: group.description or group.key for group in recorders[each].groups}
                    opens[each] = frozenset(
                        (names.get(entry.group), entry.point_to_point, entry.sequence) for entry in collectives
                    )
            if opens[rank] and any(opens[rank] < opens[peer] for peer in peers):
                ended.add(rank)
                yield _suspect(rank, "away", operation, len(operation.waiting), went_on=True)
            if len(ended) > MOST_ENDS:
                return


def _of_ring(ranks: Sequence[int], graph: "_Graph", recorders: Mapping[int, Recorder], chains: int) -> list[ChainEnd]:
    """Of ranks that wait for each other: those that went on after what they wait in (a receive that is asked for ahead
    of time is no place to stand in), or all of them."""
    within = set(ranks)
    passed = {rank: _passed(recorders[rank]) for rank in ranks if rank in recorders}
    away = [
        rank
        for rank in ranks
        if passed.get(rank)
        and all(
            id(operation.waiting[rank]) in passed[rank]
            for operation in graph.of_rank(rank)
            if operation.leads_to() & within
        )
    ]
    why: Why = "away" if away else "ring"
    return [
        _suspect(rank, why, operation, chains + len(within) - len(away or ranks), went_on=bool(away))
        for rank in away or ranks
        if (operation := graph.asked_of(rank)) is not None
    ][:MOST_ENDS]


def _passed(recorder: Recorder) -> set[int]:
    """What has not ended, though something that was issued later has."""
    passed: set[int] = set()
    later = False
    for entry in reversed(recorder.entries):
        if entry.state == "completed":
            later = True
        elif later:
            passed.add(id(entry))
    return passed


def first_open(recorder: Recorder) -> Collective | None:
    return next((entry for entry in recorder.entries if entry.state != "completed"), None)


_LOST = Collective(group="", sequence=-1, operation="")


def _is_cut(recorder: Recorder) -> bool:
    """Whether its ring has lost entries that had not ended: nobody knows what it stands in."""
    ended = any(entry.state == "completed" for entry in recorder.entries)
    return recorder.forgotten > 0 and not recorder.only_active and not ended


def _step(entry: Collective) -> Key:
    """What is issued at once: the parts of a batch have one number."""
    return entry.group, entry.point_to_point, entry.sequence


def _moment(recorder: Recorder) -> float:
    return recorder.written_at or recorder.dumped_at


def _last(recorder: Recorder | None) -> Collective | None:
    return recorder.entries[-1] if recorder is not None and recorder.entries else None


def _is_young(recorder: Recorder, entry: Collective) -> bool:
    """Whether it was issued so shortly before its recorder was written that it may be on its way."""
    age = _moment(recorder) - entry.created_ns / 1e9 if entry.created_ns > 0 else -1e9
    return -IN_FLIGHT < age < IN_FLIGHT  # before its time: the file was copied without it


def _stands_before(rank: int, entry: Collective, first: Mapping[int, Collective]) -> bool:
    """Whether a rank that has issued it need not have come to it: its GPU stands in something else."""
    return entry.state != "started" and rank in first and _step(first[rank]) != _step(entry)


def _was_written_before(recorder: Recorder, entries: Iterable[Collective]) -> bool:
    """Whether it was written before all of these were issued: then it does not tell who has not come."""
    moment = _moment(recorder)
    return moment > 0 and all(entry.created_ns / 1e9 > moment + 1.0 for entry in entries)


def _is_of_later(other: Recorder, own: Recorder) -> bool:
    """Whether what the other has ended may have ended after our recorder was written."""
    return _moment(own) > 0 and _moment(other) > _moment(own) + ONE_MOMENT


def _collectives(
    number: int, group: GroupOps, recorders: Mapping[int, Recorder], first: Mapping[int, Collective]
) -> dict[Key, _Operation]:
    operations: dict[Key, _Operation] = {}
    by_sequence: defaultdict[int, dict[int, Collective]] = defaultdict(dict)
    for rank, entries in group.collectives.items():
        for entry in entries:
            if entry.state != "completed":
                by_sequence[entry.sequence].setdefault(rank, entry)
    for sequence, waiting in by_sequence.items():
        if all(_is_young(recorders[rank], entry) for rank, entry in waiting.items()):
            continue
        operation = operations[number, sequence] = _Operation(group)
        operation.waiting = waiting
        ended = []
        for rank in group.ranks:
            if rank in waiting:
                continue
            position = group.positions.get(rank)
            if position is None:
                operation.unknown.add(rank)
            elif position >= sequence:
                ended.append(rank)
            elif _was_written_before(recorders[rank], waiting.values()):
                operation.unknown.add(rank)
            else:
                operation.missing.add(rank)
        if any(_step(first[rank]) == _step(entry) for rank, entry in waiting.items()):
            operation.before = {rank for rank, entry in waiting.items() if _stands_before(rank, entry, first)}
        together = not {entry.operation for entry in waiting.values()} & NOT_TOGETHER
        if ended and not operation.missing and not operation.unknown and (together or len(waiting) == 1):
            operation.held = {
                rank
                for rank in waiting
                if not all(_is_of_later(recorders[rank_ended], recorders[rank]) for rank_ended in ended)
            }
        elif not operation.missing and not operation.unknown and not ended:
            standing = {rank for rank, entry in waiting.items() if not _stands_before(rank, entry, first)}
            begun = {rank for rank in standing if waiting[rank].state == "started"}
            operation.held = standing - begun if begun else set()
    return operations


def _pairs(
    number: int, group: GroupOps, recorders: Mapping[int, Recorder], first: Mapping[int, Collective]
) -> dict[Key, _Operation]:
    """The sends and receives: the n-th that has not ended of one rank goes with the n-th of the other."""
    ways: defaultdict[tuple[int, int, str], list[Collective]] = defaultdict(list)
    every: defaultdict[tuple[int, int, str], int] = defaultdict(int)
    for rank, entries in group.pairs.items():
        for entry in entries:
            if entry.peer is not None and entry.peer != rank and entry.operation in OTHER_END:
                way = rank, entry.peer, entry.operation
                every[way] = max(every[way], entry.nth + 1)
                if entry.state != "completed":
                    ways[way].append(entry)
    operations: dict[Key, _Operation] = {}
    for (rank, peer, name), own in ways.items():
        others = ways.get((peer, rank, OTHER_END[name]), [])
        whole = peer in recorders and not recorders[rank].forgotten and not recorders[peer].forgotten
        whole &= all(entry.nth >= 0 for entry in own)
        # The other end's first that is open; where the beginning of a ring is lost, the open ones face each other.
        over = every.get((peer, rank, OTHER_END[name]), 0) - len(others) if whole else 0
        for number_of_own, entry in enumerate(own):
            at = entry.nth - over if whole else number_of_own
            if _is_young(recorders[rank], entry):
                break
            operation = operations[number, rank, peer, name, number_of_own] = _Operation(group)
            operation.waiting = {rank: entry}
            if peer not in recorders:
                operation.unknown.add(peer)
            elif at < 0:
                operation.held.add(rank)  # the other end has come and gone
            elif at < len(others):
                if _stands_before(peer, others[at], first):
                    operation.before.add(peer)
                elif others[at].state == "started" and not _stands_before(rank, entry, first):
                    operation.held |= set() if entry.state == "started" else {rank}
            elif _was_written_before(recorders[peer], [entry]):
                operation.unknown.add(peer)
            else:
                operation.missing.add(peer)
    # The parts of a batch end together: one whose other end has gone keeps its GPU only where all of them have.
    batches: defaultdict[Key, list[_Operation]] = defaultdict(list)
    for operation in operations.values():
        for rank, entry in operation.waiting.items():
            batches[rank, entry.sequence].append(operation)
    for parts in batches.values():
        if not all(part.held for part in parts):
            for part in parts:
                part.held.clear()
    return operations


Node = int | Key
"""A rank, or an operation."""


class _Graph:
    """Ranks lead to what they wait in, and that to the ranks that keep it."""

    def __init__(
        self, operations: Mapping[Key, _Operation], stuck: frozenset[int], first: Mapping[int, Collective]
    ) -> None:
        self.operations = operations
        self.own: defaultdict[int, list[Key]] = defaultdict(list)
        self.next: dict[Node, list[Node]] = {}
        self.before: defaultdict[Node, list[Node]] = defaultdict(list)
        for key, operation in operations.items():
            for rank in operation.waiting:
                if rank not in stuck:
                    self.own[rank].append(key)
            self.next[key] = [*sorted(operation.leads_to())]
        for key in operations:
            for node_ in self.next[key]:
                self.before[node_].append(key)
        for rank, keys in self.own.items():
            # What all have come to is an end where a rank stands in it; what it has issued after that keeps nobody.
            leads = [
                key for key in keys if self.next[key] or _step(operations[key].waiting[rank]) == _step(first[rank])
            ]
            self.next[rank] = [*leads]
            for key in leads:
                self.before[key].append(rank)

    def of_rank(self, rank: int) -> Iterator[_Operation]:
        return (self.operations[key] for key in self.own.get(rank, ()))

    def asked_of(self, rank: int) -> _Operation | None:
        """An operation that lacks this rank, rather than one of which that is not known; the oldest."""
        keys = [self.operations[key] for key in self.before.get(rank, ()) if isinstance(key, tuple)]

        def order(operation: _Operation) -> tuple[bool, int]:
            return rank not in operation.missing, min(entry.created_ns for entry in operation.waiting.values())

        return min(keys, key=order, default=None)

    def waiters_of(self, ranks: Sequence[int]) -> set[int]:
        """The ranks whose waits lead to one of these."""
        seen: set[Node] = set(ranks)
        path: list[Node] = [*ranks]
        while path:
            for node in self.before.get(path.pop(), ()):
                if node not in seen:
                    seen.add(node)
                    path.append(node)
        return {node for node in seen if isinstance(node, int)}

    def ends(self) -> list[list[Node]]:
        """The sets of nodes that lead to each other and nowhere else (Tarjan's strongly connected components)."""
        index: dict[Node, int] = {}
        low: dict[Node, int] = {}
        stack: list[Node] = []
        of: dict[Node, int] = {}
        components: list[list[Node]] = []
        for root in self.next:
            if root in index:
                continue
            index[root] = low[root] = len(index)
            stack.append(root)
            path: list[tuple[Node, Iterator[Node]]] = [(root, iter(self.next.get(root, ())))]
            while path:
                node, following = path[-1]
                for other in following:
                    if other not in index:
                        index[other] = low[other] = len(index)
                        stack.append(other)
                        path.append((other, iter(self.next.get(other, ()))))
                        break
                    if other not in of:
                        low[node] = min(low[node], index[other])
                else:
                    path.pop()
                    if path:
                        low[path[-1][0]] = min(low[path[-1][0]], low[node])
                    if low[node] == index[node]:
                        part: list[Node] = []
                        while node not in of:
                            part.append(stack.pop())
                            of[part[-1]] = len(components)
                        components.append(part)
        return [
            part
            for number, part in enumerate(components)
            if all(of[other] == number for node in part for other in self.next.get(node, ()))
        ][:MOST_ENDS]
