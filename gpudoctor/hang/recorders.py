"""What the flight recorders of all ranks say together: where they agree, where not, who is behind.

Collectives of a group carry the same number on all of its ranks, so ranks are compared by (group, number) and not by
the order of their records. A group has a split when somebody waits in it: the split is the first number that some rank
has not come to, that ranks came to with different operations, or that all came to and nobody has completed. Over
several groups one split explains another: the ranks that are behind in one group wait in another group. The first split
is the one at which the chains of waits end (`waits_for`).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.hang.courses import courses
from gpudoctor.hang.recorder_pairs import pairs
from gpudoctor.hang.report import GroupCourse
from gpudoctor.hang.signatures import EXCHANGES, Signature, Signatures, difference, exchanged, given, taken
from gpudoctor.hang.waits_for import GroupOps, WaitsFor, first_open, waits_for
from gpudoctor.knowledge.calls import unlike_lines
from gpudoctor.knowledge.places import is_user
from gpudoctor.snapshot.evidence import Collective, Frame, Recorder

MOST_LINES = 16
"""Numbers before a difference whose lines are compared: as many as recorders keep with their lines."""
SplitKind = Literal["missing", "operation", "shape", "dtype", "peer", "none"]


class GroupSplit(Struct, frozen=True, kw_only=True):
    """The first collective that the ranks of a group do not agree on."""

    group: str
    description: str
    sequence: int
    kind: SplitKind
    """missing: some ranks have not come to it. operation, shape, dtype: they came with different ones. peer: sends and
    receives that wait for each other. none: all came with the same, and it has not completed (network, GPU, or a rank
    that died in it)."""
    behind: tuple[int, ...] = ()
    """Ranks that have not come to it (kind "missing"); () where it is known that one is missing, and not which."""
    parties: tuple[tuple[tuple[int, ...], Collective], ...] = ()
    """Who came with what: ranks, and the entry of the first of them; the largest party first."""
    elsewhere: tuple[tuple[int, Collective], ...] = ()
    """What a rank of `behind` is in instead, in another group, where its recorder tells."""
    unknown: tuple[int, ...] = ()
    """Ranks of the group whose recorder was not read, or has lost what it knew of the group: they may be behind."""
    members_known: bool = True
    """False where nothing says which ranks the group has (gloo's groups beside the default one): besides those that
    have used it there may be more."""
    waiting: tuple[int, ...] = ()
    """Ranks with something in this group that has not completed."""
    matched: bool = True
    """False where the beginning of a ring buffer is lost: which send goes with which receive is then inferred."""
    swapped: bool = False
    """Two parties have come with each other's next call: the same two, in different orders."""

    @property
    def odd(self) -> frozenset[int]:
        """Ranks that came with another one than most."""
        return frozenset(rank for ranks, _ in self.parties[1:] if self.kind in _DIFFERS for rank in ranks)


class Agreement(Struct, frozen=True, kw_only=True):
    ranks: tuple[int, ...]
    """Whose recorders were read."""
    unread: tuple[int, ...] = ()
    """Ranks of the world whose recorders were not."""
    first: GroupSplit | None = None
    """Over the groups, the one that comes first: the first group with missing ranks wins (a rank that stands in one
    group keeps others waiting in another). None when all that was recorded has completed."""
    splits: tuple[GroupSplit, ...] = ()
    """One a group that does not agree, `first` among them; two where its sends and receives do not either."""
    last_completed: Mapping[str, int] = {}
    """By group: the last collective that every rank has completed."""
    current: Mapping[int, Collective] = {}
    """By rank: the oldest entry that has not completed."""
    stale: bool = False  # read from files that were written before the present look
    spread_seconds: float = 0.0
    """Between the oldest and the newest of these files: ranks of an older file may have got on since."""
    cycle: tuple[str, ...] = ()
    """Groups that wait for each other in a ring: each is used by ranks that another one waits for."""
    courses: tuple[GroupCourse, ...] = ()
    waits: WaitsFor = WaitsFor()
    """Who waits for whom over all groups, and where that ends."""

    @property
    def is_empty(self) -> bool:
        """torch writes a recorder's dump also where the recorder is off."""
        return not (self.last_completed or self.current or self.splits or self.courses)


def compare(recorders: Mapping[int, Recorder], world_size: int) -> Agreement:
    """Compare the recorders of a job, by rank. Linear in the number of entries."""
    views = _views(recorders, world_size)
    current = {rank: entry for rank in sorted(recorders) if (entry := first_open(recorders[rank])) is not None}
    splits: list[GroupSplit] = []
    last_completed: dict[str, int] = {}
    for view in views:
        if (completed := view.completed()) is not None:
            last_completed[view.key] = completed
        splits += [split for split in (view.split(), view.split_of_pairs()) if split is not None]
    splits = [_with_elsewhere(split, recorders) for split in splits]
    operations = [view.operations() for view in views]
    waits = waits_for(recorders, operations)
    stands = {split.group: (split.sequence, split.odd) for split in splits if split.kind != "peer"}
    splits = [_in_its_place(split, waits) for split in splits if not waits.in_flight or split.kind in _DIFFERS]
    first, cycle = _first(splits, waits)
    files = [recorder.written_at for recorder in recorders.values() if recorder.written_at > 0]
    return Agreement(
        ranks=tuple(sorted(recorders)),
        unread=tuple(rank for rank in range(world_size) if rank not in recorders),
        first=first,
        splits=tuple(splits),
        last_completed=last_completed,
        current=current,
        stale=bool(files),
        spread_seconds=max(files) - min(files) if files else 0.0,
        cycle=cycle,
        courses=courses(operations, stands),
        waits=waits,
    )


# ---------------------------------------------------------------- one group


class _View:
    """A group, and what every rank's recorder has of it."""

    def __init__(self, key: str, ranks: tuple[int, ...], signatures: Signatures) -> None:
        self.key = key
        self.ranks = ranks
        self.members_known = bool(ranks)
        self.others: tuple[int, ...] = ()
        """Ranks that may belong to it, where nothing says who does."""
        self.description = ""
        self.signatures = signatures
        self.entries: dict[int, list[Collective]] = {}
        self.pairs: dict[int, list[Collective]] = {}
        self.enqueued: dict[int, int] = {}
        self.forgotten: dict[int, bool] = {}
        """Of the ranks that were read: whether their ring buffer has lost its beginning."""

    def positions(self) -> dict[int, int]:
        """How far each rank has come; without those of which nothing is known."""
        lowest = min((entry.sequence for entries in self.entries.values() for entry in entries), default=1)
        positions: dict[int, int] = {}
        for rank in self.ranks:
            if rank in self.enqueued and self.enqueued[rank] >= 0:
                positions[rank] = self.enqueued[rank]
            elif rank in self.forgotten and not self.forgotten[rank]:
                positions[rank] = min(lowest, 1) - 1  # it has its whole past, and this group is not in it
        return positions

    def operations(self) -> GroupOps:
        return GroupOps(self.key, self.description, self.ranks, self.positions(), self.entries, self.pairs)

    def completed(self) -> int | None:
        """The last collective that every rank whose position is known has completed; None where there is none."""
        positions = self.positions()
        if not positions or max(positions.values()) < 0:
            return None
        ends = []
        for rank, position in positions.items():
            open_ones = [entry.sequence for entry in self.entries.get(rank, ()) if entry.state != "completed"]
            ends.append(min([position, *(sequence - 1 for sequence in open_ones)]))
        return min(ends)

    def split(self) -> GroupSplit | None:
        """Where the collectives of the group part, or stand; None where nobody waits."""
        waiting = {
            rank: min(sequences)
            for rank, entries in self.entries.items()
            if (sequences := [entry.sequence for entry in entries if entry.state != "completed"])
        }
        if not waiting:
            return None
        positions = self.positions()
        lowest, stands = min(positions.values()), min(waiting.values())
        kind: SplitKind = "missing" if stands > lowest else "none"
        at = lowest + 1 if stands > lowest else stands
        differs = self.first_difference(at)
        by_line = False
        if differs is not None:
            number, kind = differs
            at = self.parted_at(number)
            by_line = at < number
        parties = self.parties(at, waiting, by_line=by_line)
        behind = tuple(sorted(rank for rank, position in positions.items() if position < at))
        if kind == "none" and not self.members_known:
            if len(self.others) == 1:
                kind, behind = "missing", self.others
            elif len(positions) == 1:
                kind = "missing"  # a group of one completes at once: somebody else belongs to it
        return GroupSplit(
            group=self.key,
            description=self.description,
            sequence=at,
            kind=kind,
            behind=behind if kind == "missing" else (),
            parties=parties,
            unknown=tuple(rank for rank in self.ranks if rank not in positions),
            members_known=self.members_known,
            waiting=tuple(sorted(waiting)),
            swapped=differs is not None and self._swapped(parties),
        )

    def _swapped(self, parties: Sequence[tuple[Sequence[int], Collective]]) -> bool:
        """Whether each of two comes next to what the other has come to: by its line or, without lines, by the call."""
        kept = any(entry.frames for entries in self.entries.values() for entry in entries)
        call_of: Callable[[Collective], object] = line_of_program if kept else _what_is_called
        own = [call_of(entry) for _, entry in parties]
        following = [
            next((call_of(one) for one in self.entries[ranks[0]] if one.sequence == entry.sequence + 1), None)
            for ranks, entry in parties
        ]
        return len(own) == 2 and None not in own and own[0] != own[1] and following == own[::-1]

    def first_difference(self, before: int) -> tuple[int, SplitKind] | None:
        """The first number up to `before` to which ranks came with different operations, or with sizes or types that
        cannot go together and have not completed."""
        by_number: dict[int, dict[tuple[Signature, ...], bool]] = {}
        for entries in self.entries.values():
            for number, group in _by_number(entries).items():
                if number <= before:
                    signature = self.signatures.of(group)
                    done = all(entry.state == "completed" for entry in group)
                    seen = by_number.setdefault(number, {})
                    seen[signature] = seen.get(signature, True) and done
        for number in sorted(number for number, seen in by_number.items() if len(seen) > 1):
            kind = difference(by_number[number])
            if kind == "operation" or (kind is not None and not all(by_number[number].values())):
                return number, kind
        return self._unequal_exchange(before)

    def _unequal_exchange(self, before: int) -> tuple[int, SplitKind] | None:
        """The first all_to_all up to `before` that has not completed, and in which ranks give and take different
        numbers of elements, all in all, or each as many as it gives, and not as many as the others: what one sends
        another one does not expect."""
        exchanges: dict[int, list[Collective]] = defaultdict(list)
        for entries in self.entries.values():
            for entry in entries:
                if entry.operation in EXCHANGES and entry.sequence <= before and entry.output_sizes:
                    exchanges[entry.sequence].append(entry)
        for number, entries in sorted(exchanges.items()):
            whole = len(entries) == len(self.ranks) and any(entry.state != "completed" for entry in entries)
            sizes = [(given(entry), taken(entry)) for entry in entries]
            each_alike = len(set(sizes)) > 1 and all(gives == takes for gives, takes in sizes)
            if whole and (each_alike or sum(map(given, entries)) != sum(map(taken, entries))):
                return number, "shape"
        return None

    def parted_at(self, at: int) -> int:
        """Where the ranks of a difference began to come from different lines of the program: as long as the calls of
        these are alike, they go through. The first of the numbers up to `at` for which that is so without a gap, and of
        which the lines have not met before: the halves of a condition on the rank meet all the time."""
        met: dict[int, frozenset[object]] = {}
        for rank in self.entries:
            for entry in self.entries[rank]:
                if at - MOST_LINES <= entry.sequence <= at and (entry.frames or entry.timeout_ms):
                    line = line_of_program(entry)
                    met[entry.sequence] = met.get(entry.sequence, frozenset()) | {line}
        first = at
        while unlike_lines(met.get(first, ())) and unlike_lines(met.get(first - 1, ())):
            first -= 1
        before = {lines for number, lines in met.items() if number < first}
        while first < at and met[first] in before:
            first += 1
        return first

    def parties(
        self, at: int, waiting: Mapping[int, int], *, by_line: bool = False
    ) -> tuple[tuple[tuple[int, ...], Collective], ...]:
        """Who came to this number with what, or from where. Where no recorder has it any more: what the waiting ones
        wait in."""
        same: dict[object, list[tuple[int, Collective]]] = defaultdict(list)
        for rank in sorted(self.entries):
            entries = [entry for entry in self.entries[rank] if entry.sequence == at]
            if entries:
                key = line_of_program(entries[0]) if by_line else (self.signatures.of(entries), exchanged(entries))
                same[key].append((rank, entries[0]))
        if not same:
            for rank in sorted(waiting):
                entries = [entry for entry in self.entries[rank] if entry.sequence == waiting[rank]]
                same[self.signatures.of(entries)].append((rank, entries[0]))
        largest = sorted(same.values(), key=lambda party: (-len(party), party[0][0]))
        return tuple((tuple(rank for rank, _ in party), _telling(party)) for party in largest)

    def split_of_pairs(self) -> GroupSplit | None:
        """Where its sends and receives stand."""
        if not self.pairs:
            return None
        open_pairs = pairs(self.pairs, self.forgotten)
        if open_pairs is None:
            return None
        return GroupSplit(
            group=self.key,
            description=self.description,
            sequence=open_pairs.parties[0][1].sequence,
            kind=open_pairs.kind,
            behind=open_pairs.behind,
            parties=open_pairs.parties,
            unknown=open_pairs.unknown,
            members_known=self.members_known,
            waiting=open_pairs.waiting,
            matched=not any(self.forgotten.get(rank) for ranks, _ in open_pairs.parties for rank in ranks),
        )


def line_of_program(entry: Collective) -> Frame | None:
    """The innermost line of the program that has started it."""
    return next(filter(is_user, entry.frames), None)


def _what_is_called(entry: Collective) -> object:
    return entry.operation, entry.input_sizes, entry.output_sizes, entry.dtypes


def _telling(party: Sequence[tuple[int, Collective]]) -> Collective:
    """The entry of the first of a party, or the first that has frames."""
    return next((entry for _, entry in party if entry.frames), party[0][1])


def _by_number(entries: Sequence[Collective]) -> dict[int, list[Collective]]:
    by_number: dict[int, list[Collective]] = {}
    for entry in entries:
        by_number.setdefault(entry.sequence, []).append(entry)
    return by_number


def _views(recorders: Mapping[int, Recorder], world_size: int) -> list[_View]:
    """The groups of a job. Two that have the same name and different ranks are two."""
    members: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for recorder in recorders.values():
        for group in recorder.groups:
            if group.ranks:
                members[group.key].add(group.ranks)
    signatures = Signatures()
    views: dict[tuple[str, tuple[int, ...]], _View] = {}

    def view_of(rank: int, name: str) -> _View:
        ranks = next(filter(None, own.get((rank, name), ())), ())
        if not ranks:
            candidates = [ranks for ranks in members.get(name, ()) if rank in ranks]
            ranks = candidates[0] if len(candidates) == 1 else ()
        if not ranks and name == "0" and world_size > 0:
            ranks = tuple(range(world_size))
        if (name, ranks) not in views:
            several = len(members.get(name, ())) > 1
            key = f"{name} of ranks {', '.join(map(str, ranks[:8]))}" if several and ranks else name
            views[name, ranks] = _View(key, ranks, signatures)
        return views[name, ranks]

    own: dict[tuple[int, str], list[tuple[int, ...]]] = defaultdict(list)
    for rank, recorder in recorders.items():
        for group in recorder.groups:
            own[rank, group.key].append(group.ranks)
    for rank in sorted(recorders):
        recorder = recorders[rank]
        cached: dict[str, _View] = {}
        for group in recorder.groups:
            view = cached[group.key] = view_of(rank, group.key)
            view.description = view.description or group.description
            view.enqueued[rank] = max(view.enqueued.get(rank, -1), group.last_enqueued)
        for entry in recorder.entries:
            if entry.sequence < 0:
                continue
            known = cached.get(entry.group)
            if known is None:
                known = cached[entry.group] = view_of(rank, entry.group)
            if entry.point_to_point:
                known.pairs.setdefault(rank, []).append(entry)
            else:
                known.entries.setdefault(rank, []).append(entry)
                if entry.sequence > known.enqueued.get(rank, -1):
                    known.enqueued[rank] = entry.sequence
    for view in views.values():
        if not view.members_known:
            view.ranks = tuple(sorted(view.enqueued))
            view.others = tuple(rank for rank in range(world_size) if rank not in view.enqueued)
            view.members_known = world_size > 0 and not view.others
        else:
            users = {rank for rank, number in view.enqueued.items() if number >= 0}  # a group may be named by others
            view.ranks = tuple(sorted({*view.ranks, *users}))
        for rank in view.ranks:
            if rank in recorders:
                view.forgotten[rank] = recorders[rank].forgotten > 0
        for rank in [rank for rank in view.enqueued if view.pairs and not view.entries.get(rank)]:
            del view.enqueued[rank]  # the status of a group counts its sends and receives too
    return sorted(views.values(), key=lambda view: (len(view.key), view.key))


# ---------------------------------------------------------------- over the groups


def _in_its_place(split: GroupSplit, waits: WaitsFor) -> GroupSplit:
    """Two ranks that wait for each other's sends are no fault where one of them stands in something else before, or
    went on after it asked for that: they are where a chain passes, and its end is the fault."""
    facing = {rank for ranks, _ in split.parties for rank in ranks}
    if split.kind != "peer" or any(suspect.why == "ring" and suspect.rank in facing for suspect in waits.suspects):
        return split
    away = tuple(
        sorted(suspect.rank for suspect in waits.suspects if suspect.why == "away" and suspect.group == split.group)
    )
    return replace(split, kind="missing", behind=away)


def _with_elsewhere(split: GroupSplit, recorders: Mapping[int, Recorder]) -> GroupSplit:
    """Add what the ranks that are behind wait in instead."""
    elsewhere = []
    name = split.parties[0][1].group if split.parties else split.group
    pairs_only = bool(split.parties) and split.parties[0][1].point_to_point
    for rank in split.behind:
        for entry in recorders[rank].entries if rank in recorders else ():
            if entry.state != "completed" and (entry.group != name or entry.point_to_point != pairs_only):
                elsewhere.append((rank, entry))
                break
    return replace(split, elsewhere=tuple(elsewhere)) if elsewhere else split


def _first(splits: Sequence[GroupSplit], waits: WaitsFor) -> tuple[GroupSplit | None, tuple[str, ...]]:
    """The split at which the chains of waits end; and the groups of the ring, where they end in one."""
    if not splits:
        return None, ()
    ends = {suspect.rank: suspect for suspect in waits.suspects if suspect.why != "stuck"}

    def order(split: GroupSplit) -> tuple[bool, int, bool, int, int, str]:
        chains = [ends[rank].chains for rank in split.behind if rank in ends]
        follows = split.kind == "missing" and bool(split.behind) and not chains
        in_part = len(chains) < len(split.behind)
        return follows, _STRENGTH[split.kind], in_part, -max(chains, default=0), _began(split), split.group

    first = min(splits, key=order)
    ring = {rank for rank, chain_end in ends.items() if chain_end.why == "ring"}
    if first.kind != "missing" or not ring & set(first.behind):
        return first, ()
    crossed = [split for split in splits if ring & set(split.behind) and not split.unknown]
    crossed.sort(key=lambda split: (_began(split), split.group))
    return crossed[0] if crossed else first, tuple(dict.fromkeys(split.group for split in crossed))


_DIFFERS = ("operation", "shape", "dtype")
_STRENGTH: Mapping[SplitKind, int] = {"operation": 0, "peer": 0, "shape": 0, "dtype": 0, "missing": 1, "none": 2}


def _began(split: GroupSplit) -> int:
    """When the first of its entries was made, nanoseconds; a large number where none tells."""
    return min((entry.created_ns for _, entry in split.parties if entry.created_ns > 0), default=1 << 62)
