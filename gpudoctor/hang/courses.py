"""Who came to which collective: of each group its last collectives, by what the flight recorders of its ranks hold.

For people to look at; what it means is concluded in `recorders`. Ranks that have the same past are one row, so that the
one that is missing stands by itself among a thousand.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpudoctor.hang.report import CourseColumn, CourseRow, GroupCourse, ProgramLine
from gpudoctor.hang.signatures import short_type
from gpudoctor.hang.waits_for import GroupOps
from gpudoctor.knowledge.places import is_user
from gpudoctor.snapshot.evidence import Collective

COLUMNS, BEFORE = 24, 8
"""Collectives of a group that are shown; of these before the one that is not over."""
MOST_GROUPS, MOST_ROWS = 8, 64
DONE, WAITS, QUEUED, OTHER, MISSING, UNKNOWN = "csqd.?"


def words(collective: Collective, description: str = "") -> str:
    """ "all_reduce #12 float32[1024] in group default_pg". `description` is the group's, where it is known."""
    sizes = collective.input_sizes or collective.output_sizes
    shapes = [f"[{', '.join(map(str, size))}]" for size in sizes[:1]]
    kind = short_type(collective.dtypes[0]) if collective.dtypes else ""
    size = f" {kind}{shapes[0]}" if shapes else ""
    more = f" and {len(sizes) - 1} more" if len(sizes) > 1 else ""
    way = ""
    if collective.peer is not None:
        way = f" {'from' if collective.operation == 'recv' else 'to'} rank {collective.peer}"
    group = description or ("default_pg" if collective.group == "0" else collective.group)
    number = f" #{collective.sequence}" if collective.sequence >= 0 else ""
    return f"{collective.operation or 'operation'}{number}{size}{more}{way} in group {group}"


def courses(groups: Sequence[GroupOps], stands: Mapping[str, tuple[int, frozenset[int]]]) -> tuple[GroupCourse, ...]:
    """`stands`: by group, the first collective that is not over, and the ranks that came to it with another one than
    most. Groups in which somebody waits come first; linear in the number of entries."""
    used = sorted((group for group in groups if group.collectives), key=lambda group: group.key not in stands)
    return tuple(_course(each, *stands.get(each.key, (None, frozenset()))) for each in used[:MOST_GROUPS])


def _course(group: GroupOps, stands: int | None, differ: frozenset[int]) -> GroupCourse:
    by_rank = {rank: _by_number(entries) for rank, entries in group.collectives.items()}
    numbers = [number for entries in by_rank.values() for number in entries]
    lowest, highest = min(numbers), max(numbers)
    first = max(lowest, (stands if stands is not None else highest) - BEFORE)
    shown = range(first, min(highest, first + COLUMNS - 1) + 1)
    rows: dict[str, list[int]] = {}
    unread = []
    for rank in group.ranks:
        position = group.positions.get(rank)
        entries = by_rank.get(rank, {})
        if position is None and not entries:
            unread.append(rank)
            continue
        states = "".join(
            _letter(entries.get(number), number, position, is_odd=rank in differ and number == stands)
            for number in shown
        )
        rows.setdefault(states, []).append(rank)
    fewest = sorted(rows.items(), key=lambda row: (len(row[1]), row[1][0]))
    return GroupCourse(
        group=group.key,
        description=group.description,
        columns=_columns(group, by_rank, shown),
        rows=tuple(CourseRow(ranks=tuple(ranks), states=states) for states, ranks in fewest[:MOST_ROWS]),
        more=tuple(rank for _, ranks in fewest[MOST_ROWS:] for rank in ranks),
        unread=tuple(unread),
    )


def _by_number(entries: Iterable[Collective]) -> dict[int, Collective]:
    """Of several calls that were joined under one number, one that is not over."""
    by_number: dict[int, Collective] = {}
    for entry in entries:
        if entry.sequence not in by_number or entry.state != "completed":
            by_number[entry.sequence] = entry
    return by_number


def _letter(entry: Collective | None, number: int, position: int | None, *, is_odd: bool) -> str:
    if entry is not None:
        if is_odd:
            return OTHER
        return {"completed": DONE, "started": WAITS, "scheduled": QUEUED}[entry.state]
    return MISSING if position is not None and number > position else UNKNOWN


def _columns(
    group: GroupOps,
    by_rank: Mapping[int, Mapping[int, Collective]],
    shown: range,
) -> tuple[CourseColumn, ...]:
    """Times are those of one rank, the one that has been in most of them: clocks of several nodes differ."""
    clock = max(by_rank, key=lambda rank: sum(number in by_rank[rank] for number in shown))
    times = {number: entry.created_ns for number, entry in by_rank[clock].items() if entry.created_ns > 0}
    began = min((times[number] for number in shown if number in times), default=0)
    columns = []
    for number in shown:
        came = [entries[number] for entries in by_rank.values() if number in entries]
        if not came:
            columns.append(CourseColumn(sequence=number))
            continue
        collective = next((entry for entry in came if entry.frames), came[0])
        frame = next(filter(is_user, collective.frames), None)
        columns.append(
            CourseColumn(
                sequence=number,
                operation=collective.operation,
                words=words(collective, group.description),
                seconds=round((times[number] - began) / 1e9, 3) if number in times else None,
                where=ProgramLine(frame.file, frame.line, frame.function) if frame is not None else None,
            )
        )
    return tuple(columns)
