"""What is issued at once has one number and one end: sends and receives, and collectives that are coalesced."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct


class EntryRow(Struct, gc=False):
    """What decides whether an entry is kept, before the rest of it is read. A large job has two million of them."""

    at: int
    group: str
    point_to_point: bool
    sequence: int
    operation: str
    done: bool
    nth: int = -1


def by_their_ends(
    rows: Sequence[EntryRow], entries: Sequence[Any], active: Mapping[str, int], *, begins: bool
) -> list[EntryRow]:
    """The parts of what is coalesced have no events of their own: the entry behind them ends for all. That of sends and
    receives torch writes as a collective, though it has no number of its own: it is left out. Where a dump has only
    what is active, parts without it have ended: the last ones where the watchdog was given them (`active`). Where a
    ring has lost its beginning (`begins`), nobody knows how many parts the first collective had: it is left out."""
    if not active and not any(name.endswith("coalesced") for name in {row.operation for row in rows}):
        return list(rows)
    ends: dict[tuple[str, bool, int], bool] = {}
    kept: list[EntryRow] = []
    for row in rows:
        part = kept[-1] if kept and row.operation == "coalesced" and not row.point_to_point else row
        batch = entries[row.at].get("p2p_seq_id") if part is not row else None
        of_batch = part.point_to_point and (part.group, part.sequence) == (row.group, batch)
        if row.operation.endswith("coalesced"):
            ends[_number(part if of_batch else row)] = row.done
        if part is row or not of_batch:
            kept.append(row)
    first = _number(kept[0])
    if not begins and not active and not first[1] and first in ends and _number(kept[-1]) != first:
        kept = [row for row in kept if _number(row) != first]
    parts = Counter(map(_number, kept)) if active else Counter[tuple[str, bool, int]]()
    batches = {number[0] for number in {*ends, *(number for number in parts if parts[number] > 1)} if number[1]}
    for row in kept:
        number = _number(row)
        part_of_several = parts[number] > 1 or (row.point_to_point and row.group in batches)
        gone = part_of_several and (number != _number(kept[-1]) or active.get(row.group, -1) >= row.sequence)
        row.done = row.done or ends.get(number, bool(active) and gone)
    return [row for row in kept if not (active and row.done)]


def _number(row: EntryRow) -> tuple[str, bool, int]:
    return row.group, row.point_to_point, row.sequence
