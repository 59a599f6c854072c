"""What a flight recorder in JSON tells of time: when each collective was issued. In a child, as ranks write it."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor.read import apart
from gpudoctor.read.job.recorder_entries import backend_of, rows_of
from gpudoctor.snapshot.pace import CollectiveTimes

MOST_GROUPS = 256
MOST_ENTRIES = 20_000
"""Ten times what torch keeps by default; the last of them."""
LONGEST_NAME = 80
LATEST = 1 << 62


class TimesAnswer(Struct):
    """What the child says."""

    backend: str = ""
    groups: list[CollectiveTimes] = []
    pipelines: list[str] = []
    """Keys of the groups in which it sends or receives."""
    lost: str = ""
    """Groups of which too much was not written, and how much was."""


def times_of(raw: bytes) -> TimesAnswer:
    """The collectives of every group, by the time at which they were issued. Sends and receives are left out: one side
    may rightly be early. Raises `msgspec.DecodeError` for what is no JSON."""
    top = msgspec.json.decode(raw)
    entries = top.get("entries") if isinstance(top, dict) else None
    if not isinstance(entries, list):
        return TimesAnswer()
    entries = entries[-MOST_ENTRIES:]
    backend = backend_of(entries)
    by_group: defaultdict[str, _OfGroup] = defaultdict(_OfGroup)
    pipelines: dict[str, None] = {}
    for row in rows_of(entries, backend):
        if row.point_to_point and len(pipelines) < MOST_GROUPS:
            pipelines[row.group] = None
        if not row.point_to_point and (row.group in by_group or len(by_group) < MOST_GROUPS):
            by_group[row.group].add(row.sequence, row.operation, entries[row.at])
    return TimesAnswer(backend, [group.told(key) for key, group in by_group.items() if group.sequences], [*pipelines])


class _OfGroup:
    def __init__(self) -> None:
        self.description = ""
        self.sequences: list[int] = []
        self.created: list[int] = []
        self.kinds: list[int] = []
        self.names: dict[str, int] = {}
        self.ran: list[float] = []

    def add(self, sequence: int, operation: str, entry: Mapping[str, Any]) -> None:
        created = entry.get("time_created_ns")
        if type(created) is not int or not 0 < created < LATEST:
            return
        if self.sequences and sequence <= self.sequences[-1]:  # parts of one that was coalesced
            return
        name = f"{operation} {entry.get('input_sizes')}"[:LONGEST_NAME]
        self.sequences.append(sequence)
        self.created.append(created)
        self.kinds.append(self.names.setdefault(name, len(self.names)))
        ran = entry.get("duration_ms")
        self.ran.append(float(ran) if isinstance(ran, int | float) and 0 < ran < 1e9 else 0.0)
        process_group = entry.get("process_group")
        if (
            not self.description
            and isinstance(process_group, list)
            and len(process_group) == 2
            and isinstance(process_group[1], str)
        ):
            self.description = process_group[1][:LONGEST_NAME]

    def told(self, key: str) -> CollectiveTimes:
        return CollectiveTimes(
            group=key,
            description=self.description,
            sequences=tuple(self.sequences),
            created_ns=tuple(self.created),
            kinds=tuple(self.kinds),
            names=tuple(self.names),
            ran_ms=tuple(self.ran) if any(self.ran) else (),
        )


def answer(request: bytes) -> bytes:
    return msgspec.json.encode(times_of(request))


main = apart.serving(answer)
