"""What a flight recorder's dump holds -> `Recorder`, for every format that torch 2.1 to 2.14 write.

| format | what is different |
|---|---|
| none (torch 2.1, 2.2) | a list of entries; `seq_id` for everything, groups by number, no dtypes |
| 1.x (2.3) | a dictionary; `pg_config` is number -> ranks |
| 2.0 on (2.4) | `pg_config` is name -> name, description, ranks (a text); `process_group`; dtypes |
| 2.2 on | `collective_seq_id` and `p2p_seq_id` in the place of `seq_id`; 2.3: `pg_status` |
| JSON | no frames, numbers of `pg_status` as texts, 0 in the place of None |

gloo (torch 2.8 on) leaves `state` at "scheduled" and says `retired` once a collective has ended; its `pg_config` has
one entry without a name, whose ranks are those of whichever group was made last, so that nothing follows from it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gpudoctor.lazy import lazy_re
from gpudoctor.read.job.recorder_batches import EntryRow, by_their_ends
from gpudoctor.read.job.recorder_pickle import UnreadableDump
from gpudoctor.snapshot.evidence import Collective, Frame, Group, Recorder

DEFAULT_GROUP = "0"
TAIL = 64
"""Of each group, so many of the last entries are kept. What ranks disagree on is where the slowest of them is, and
there the others have not completed."""
WHOLE = 16
"""Of these, so many of the last have all they had, beside those that have not completed and as many before the first
of them; the others are without frames, and where they have an input without output and time-out: the evidence of 1,024
ranks travels to one node."""
MOST_UNFINISHED = 512
MOST_ENTRIES = 4096
MOST_GROUPS = 1024
MOST_FRAMES = 12
MOST_TENSORS = 32
MOST_DIMENSIONS = 16
MOST_RANKS = 1 << 17
LONGEST_TEXT = 200
LONGEST_PATH = 1024
OPERATIONS = {
    "_all_gather_base": "all_gather_into_tensor",
    "_allgather_base": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "all_reduce_barrier": "barrier",
    "allreduce_coalesced": "all_reduce_coalesced",
    "allgather_coalesced": "all_gather_coalesced",
    "all_to_all_v_single": "all_to_all_single",
}
"""Names inside torch -> the function that the user calls."""
TYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e5m2": "float8_e5m2",
}
"""c10::toString -> torch's name of the type."""
_TORCH = lazy_re(
    r"(?:^|/)(?:site|dist)-packages/torch/|(?:^|/)torch/(?:distributed|nn|autograd|utils|_\w+|optim)/|(?:^|/)torch/_\w+\.py$"
    r"|/typing_extensions\.py$|/contextlib\.py$"
)
_NAME = lazy_re(r"(?:(?P<backend>\w+):)?(?P<name>[^\s:]+)(?:\s+(?P<from>\d{1,7})(?P<arrow>->|<-)(?P<to>\d{1,7}))?")
_DIGITS = lazy_re(r"\d{1,7}")


def recorder(dump: object, source: str, written_at: float) -> Recorder:
    """Cut a dump down to what decides. Raises `UnreadableDump` where it is no recorder's."""
    top = dump if isinstance(dump, dict) else {}
    entries: Any = dump if isinstance(dump, list) else top.get("entries", [])
    known = {"entries", "pg_config", "pg_status", "version", "comm_lib_version"}
    if not isinstance(entries, list) or (not known & top.keys() and not isinstance(dump, list)):
        raise UnreadableDump("it is no flight recorder's: it has no entries")
    if entries and not any(isinstance(entry, dict) and "profiling_name" in entry for entry in entries[:16]):
        raise UnreadableDump("it is no flight recorder's: its entries name no operation")
    backend = backend_of(entries)
    first = entries[0] if entries and isinstance(entries[0], dict) else {}
    first_id = _integer(first.get("record_id"), 0)
    last_id = _integer(entries[-1].get("record_id"), 0) if entries and isinstance(entries[-1], dict) else 0
    gaps = last_id - first_id >= len(entries)
    every = rows_of(entries, backend)
    enqueued = _enqueued(top, entries, every)
    rows = by_their_ends(every, entries, enqueued if gaps else {}, begins=first_id == 0)
    own = by_group(rows)
    if backend != "gloo":
        _let_later_decide(own, enqueued)
    groups = _groups(top, entries, own, backend)
    kept, whole = _kept(rows, own)
    ranks = {group.key: group.ranks for group in groups}
    made = _Made()
    # Of ranks that have issued many: TORCH_INCLUDE_ONLY_ACTIVE leaves out what has ended.
    forgotten = first_id if entries else max([0, *(group.last_enqueued for group in groups)])
    return Recorder(
        source=source,
        version=_text(top.get("version", "")),
        backend=backend,
        written_at=written_at,
        groups=groups,
        entries=tuple(made.collective(entries[row.at], row, ranks.get(row.group, ()), row.at in whole) for row in kept),
        total=len(entries),
        forgotten=max(0, forgotten),
        only_active=gaps if entries else forgotten > 0,
    )


# ---------------------------------------------------------------- values of a foreign file


def _integer(value: object, otherwise: int) -> int:
    """A number that JSON can carry; also where it stands as a text."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    if isinstance(value, int) and -(1 << 62) < value < 1 << 62:
        return int(value)
    return otherwise


def _text(value: object, longest: int = LONGEST_TEXT) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    text = str(value)[:longest] if isinstance(value, str) or -(1 << 62) < value < 1 << 62 else ""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _group_key(entry: Mapping[Any, Any]) -> str:
    name = _list(entry.get("process_group"))
    if name:
        return group_key(_text(name[0]), _text(name[1]) if len(name) > 1 else "")
    return _text(entry.get("pg_id", "")) or DEFAULT_GROUP


def group_key(name: str, description: str = "") -> str:
    """The key of a process group by its name; torch's default group has several names."""
    return DEFAULT_GROUP if name in ("", "default_pg") or description == "default_pg" else name


# ---------------------------------------------------------------- which entries there are


def backend_of(entries: Sequence[Any]) -> str:
    profiled = (entry.get("profiling_name") for entry in entries if isinstance(entry, dict))
    names: Counter[str] = Counter()
    for name, count in Counter(name for name in profiled if type(name) is str).items():
        names[name.partition(":")[0] if ":" in name else ""] += count
    return _text(names.most_common(1)[0][0], 32) if names else ""


def rows_of(entries: Sequence[Any], backend: str) -> list[EntryRow]:
    """In one plain loop; names of operations and groups, of which a dump says few a thousand times, are asked once."""
    operations: dict[str, str] = {}
    groups: dict[tuple[str, str], str] = {}
    met: Counter[tuple[str, str]] = Counter()
    gloo, rows = backend == "gloo", []
    for index, entry in enumerate(entries):
        name = entry.get("profiling_name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        operation = operations.get(name)
        if operation is None:
            operation = operations[name] = _operation(name)
        is_p2p = entry.get("is_p2p")
        point_to_point = is_p2p if is_p2p is True or is_p2p is False else operation in ("send", "recv")
        sequence = entry.get("p2p_seq_id" if point_to_point else "collective_seq_id")
        if type(sequence) is not int or not -1 <= sequence < 1 << 62:
            sequence = _integer(entry.get("seq_id") if sequence is None else sequence, -1)
        pair = entry.get("process_group")
        group = None
        if type(pair) is tuple and len(pair) == 2 and type(pair[0]) is type(pair[1]) is str:
            group = groups.get(pair)
            if group is None:
                group = groups[pair] = _group_key(entry)
        done = entry.get("state") == "completed" or (gloo and entry.get("retired") is True)
        row = EntryRow(index, group or _group_key(entry), point_to_point, sequence, operation, done)
        if point_to_point:
            row.nth = met[row.group, name]
            met[row.group, name] += 1
        rows.append(row)
    return rows


def _operation(told: str) -> str:
    match = _NAME.match(told[:LONGEST_TEXT])
    name = match["name"].lower() if match else ""
    return _text(OPERATIONS.get(name, name), 64)


def by_group(rows: Sequence[EntryRow]) -> dict[str, list[EntryRow]]:
    own: dict[str, list[EntryRow]] = {}
    for row in rows:
        if row.group in own:
            own[row.group].append(row)
        else:
            own[row.group] = [row]
    return own


def _enqueued(top: Mapping[Any, Any], entries: Sequence[Any], rows: Sequence[EntryRow]) -> dict[str, int]:
    """Group -> the last collective that its watchdog was given, where the dump's status tells."""
    status = top.get("pg_status")
    if not isinstance(status, dict):
        return {}
    by_id = {_text(key): value for key, value in list(status.items())[:MOST_GROUPS] if isinstance(value, dict)}
    firsts: dict[str, int] = {}
    for row in rows:
        firsts.setdefault(row.group, row.at)
    return {
        group: _integer(by_id.get(_text(entries[at].get("pg_id", "")), {}).get("last_enqueued_collective"), -1)
        for group, at in list(firsts.items())[:MOST_GROUPS]
    }


def _let_later_decide(own: Mapping[str, Sequence[EntryRow]], enqueued: Mapping[str, int]) -> None:
    """The collectives of one communicator end in their order: what came before a completed one has completed.

    Not so of one that was called when the communicator was aborted: it is over at once, and was never enqueued."""
    for group, rows in own.items():
        unfinished = [row for row in rows if not row.done and not row.point_to_point]
        if not unfinished:
            continue
        given = enqueued.get(group, -1)
        last = max(
            (row.sequence for row in rows if row.done and not row.point_to_point and not 0 <= given < row.sequence),
            default=-1,
        )
        for row in unfinished:
            row.done = row.sequence < last


def _kept(rows: Sequence[EntryRow], own: Mapping[str, Sequence[EntryRow]]) -> tuple[list[EntryRow], set[int]]:
    """The rows to keep, in order; and the indices of those of which all is kept."""
    unfinished = [row for row in rows if not row.done]
    if len(unfinished) > MOST_UNFINISHED:
        unfinished = unfinished[: MOST_UNFINISHED // 2] + unfinished[-MOST_UNFINISHED // 2 :]
    open_groups = dict.fromkeys(row.group for row in unfinished)
    before = _before_the_first([own[group] for group in open_groups])
    chosen = {row.at: row for row in (*unfinished, *before)}
    whole = {row.at for row in (*unfinished[: MOST_UNFINISHED // 4], *before)}
    tails = sorted((row for rows in own.values() for row in rows[-TAIL:]), key=lambda row: -row.at)
    chosen |= {row.at: row for row in tails[: MOST_ENTRIES - len(chosen)]}
    whole |= {row.at for rows in own.values() for row in rows[-WHOLE:] if row.at in chosen}
    return [chosen[index] for index in sorted(chosen)], whole


def _before_the_first(groups: Sequence[Sequence[EntryRow]]) -> list[EntryRow]:
    """Of each group the last ones that were over before the first that is not: ranks may have parted there already."""
    entry_rows: list[EntryRow] = []
    for own in groups[:MOST_GROUPS]:
        first = next((at for at, row in enumerate(own) if not row.done), 0)
        entry_rows += own[max(0, first - WHOLE) : first]
    return entry_rows[: MOST_ENTRIES // 2]


# ---------------------------------------------------------------- groups


def _groups(
    top: Mapping[Any, Any], entries: Sequence[Any], own: Mapping[str, Sequence[EntryRow]], backend: str
) -> tuple[Group, ...]:
    descriptions: dict[str, str] = {}
    numbers: dict[str, str] = {}
    enqueued: dict[str, int] = {}
    completed: dict[str, int] = {}
    for group_name, rows in list(own.items())[:MOST_GROUPS]:
        entry = entries[rows[0].at]
        numbers[_text(entry.get("pg_id", ""))] = group_name
        name = _list(entry.get("process_group"))
        descriptions[group_name] = _text(name[1]) if len(name) > 1 else ""
        collectives = [row for row in rows if not row.point_to_point]
        enqueued[group_name] = max((row.sequence for row in collectives), default=-1)
        completed[group_name] = max((row.sequence for row in collectives if row.done), default=-1)
    ranks: dict[str, tuple[int, ...]] = {}
    configured = top.get("pg_config")
    for name, told in list(configured.items())[:MOST_GROUPS] if isinstance(configured, dict) else ():
        if isinstance(told, dict):
            if told.get("name", name) == "" and backend in ("gloo", ""):
                continue
            key = group_key(_text(told.get("name", name)) or _text(name), _text(told.get("desc", "")))
            descriptions.setdefault(key, _text(told.get("desc", "")))
            ranks[key] = _ranks(told.get("ranks"))
        else:
            key = _text(name)
            descriptions.setdefault(key, "")
            ranks[key] = _ranks(told)
    status = top.get("pg_status")
    if isinstance(status, dict) and isinstance(configured, dict):
        numbers = _numbered(status, configured, numbers) | numbers
    of_pairs = {group_name for group_name, rows in own.items() if any(row.point_to_point for row in rows)}
    for number, told in list(status.items())[:MOST_GROUPS] if isinstance(status, dict) else ():
        group = numbers.get(_text(number))
        if group is None and _text(number) == "0" and DEFAULT_GROUP not in numbers.values():
            group = DEFAULT_GROUP
            descriptions.setdefault(group, "default_pg")
        if group is not None and group not in of_pairs and isinstance(told, dict):  # else it may count sends
            enqueued[group] = max(enqueued.get(group, -1), _integer(told.get("last_enqueued_collective"), -1))
            completed[group] = max(completed.get(group, -1), _integer(told.get("last_completed_collective"), -1))
    return tuple(
        Group(
            key=key,
            description="" if description == "undefined" else description,
            ranks=ranks.get(key, ()),
            last_enqueued=enqueued.get(key, -1),
            last_completed=completed.get(key, -1),
        )
        for key, description in descriptions.items()
    )


def _numbered(status: Mapping[Any, Any], configured: Mapping[Any, Any], known: Mapping[str, str]) -> dict[str, str]:
    """Number in `pg_status` -> group, of groups without an entry too, which says both: torch numbers a process's groups
    and names all groups in the order in which they are made. Nothing where the names or the known ones do not fit."""
    numbers = sorted(_text(number) for number in list(status)[:MOST_GROUPS])
    names = [_text(name) for name in list(configured)[:MOST_GROUPS]]
    if len(numbers) != len(names) or not all(map(_DIGITS.fullmatch, (*numbers, *names))):
        return {}
    by_number = dict(zip(sorted(numbers, key=int), sorted(names, key=int), strict=True))
    return by_number if all(by_number.get(number, group) == group for number, group in known.items()) else {}


def _ranks(value: object) -> tuple[int, ...]:
    """A list of ranks, also as a text: "[0, 1, 2]"."""
    if isinstance(value, str):
        return tuple(int(digits) for digits in _DIGITS.findall(value[: MOST_RANKS * 8])[:MOST_RANKS])
    return tuple(rank for each in _list(value)[:MOST_RANKS] if (rank := _integer(each, -1)) >= 0)


# ---------------------------------------------------------------- one entry


class _Made:
    """Makes `Collective`s; what many entries of a dump share (frames, sizes, types) is made once."""

    def __init__(self) -> None:
        self.frames: dict[tuple[object, ...], tuple[Frame, ...]] = {}
        self.shared: dict[Any, Any] = {}

    def collective(self, entry: Mapping[Any, Any], row: EntryRow, ranks: Sequence[int], whole: bool) -> Collective:
        started = entry.get("state") == "started"
        state: Literal["scheduled", "started", "completed"] = (
            "completed" if row.done else "started" if started else "scheduled"
        )
        created = entry.get("time_created_ns")
        inputs = self.sizes(entry.get("input_sizes"))
        return Collective(
            group=row.group,
            sequence=row.sequence,
            operation=row.operation,
            point_to_point=row.point_to_point,
            peer=_peer(entry["profiling_name"], ranks, row.group),
            nth=row.nth,
            state=state,
            input_sizes=inputs,
            output_sizes=self.sizes(entry.get("output_sizes")) if whole or not inputs else (),
            dtypes=self.types(entry.get("input_dtypes")) or self.types(entry.get("output_dtypes")),
            frames=self.stack(entry.get("frames")) if whole else (),
            created_ns=_integer(entry.get("time_created_us"), 0) * 1000 if created is None else _integer(created, 0),
            timeout_ms=_integer(entry.get("timeout_ms"), 0) if whole else 0,
        )

    def sizes(self, value: object) -> tuple[tuple[int, ...], ...]:
        shapes = tuple(
            tuple(_integer(number, -1) for number in _list(tensor)[:MOST_DIMENSIONS])
            for tensor in _list(value)[:MOST_TENSORS]
        )
        shared: tuple[tuple[int, ...], ...] = self.shared.setdefault(shapes, shapes)
        return shared

    def types(self, value: object) -> tuple[str, ...]:
        dtypes = tuple(TYPES.get(name, name) for each in _list(value)[:MOST_TENSORS] if (name := _text(each, 32)))
        shared: tuple[str, ...] = self.shared.setdefault(dtypes, dtypes)
        return shared

    def stack(self, value: object) -> tuple[Frame, ...]:
        frames = _list(value)[:256]
        key = tuple(id(frame) for frame in frames)  # torch writes each frame once, and the dump lives as long as we
        if key not in self.frames:
            self.frames[key] = tuple(self.frame(frame) for frame in frames if _is_users(frame))[:MOST_FRAMES]
        return self.frames[key]

    def frame(self, entry: Mapping[Any, Any]) -> Frame:
        made = Frame(
            function=_text(entry.get("name", "")),
            file=_text(entry.get("filename", ""), LONGEST_PATH),
            line=_integer(entry.get("line"), 0),
        )
        shared: Frame = self.shared.setdefault(made, made)
        return shared


def _is_users(value: object) -> bool:
    return isinstance(value, dict) and _TORCH.search(_text(value.get("filename", ""), LONGEST_PATH)) is None


def _peer(name: str, ranks: Sequence[int], group: str) -> int | None:
    """The other end of "send 1->2" or "recv 1<-2", as a global rank. The name counts within the group."""
    match = _NAME.match(name[:LONGEST_TEXT])
    if match is None or match["to"] is None:
        return None
    number = int(match["to"])
    if ranks:
        return ranks[number] if number < len(ranks) else None
    return number if group == DEFAULT_GROUP else None
