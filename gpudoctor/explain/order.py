"""Puts together what several logs show: whose rank a process is, and what came before what."""

from msgspec import Struct, field, structs

from gpudoctor.explain.scan import Scan, Told, ToldExit, ToldTraceback
from gpudoctor.symptom import Event, Symptom

SAME_MOMENT = 1.0
"""Seconds within which times of two files tell no order: log stamps, and clocks of several machines."""


class Shown(Struct, frozen=True, kw_only=True):
    """An event with its symptom."""

    event: Event
    symptom: Symptom
    pid: int | None = None


class Facts(Struct, kw_only=True):
    """Everything that the logs show."""

    shown: list[Shown] = field(default_factory=list)
    tracebacks: list[ToldTraceback] = field(default_factory=list)
    exits: list[ToldExit] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    """Ranks that wrote something."""
    world_size: int | None = None
    lines: dict[str, int] = field(default_factory=dict)
    """File -> its lines."""


def put_together(scans: list[Scan], table: dict[str, Symptom]) -> Facts:
    """The facts of all logs, ranks filled in where a process or a local rank tells them."""
    facts = Facts(lines={scan.file: scan.lines for scan in scans})
    for scan in scans:
        facts.ranks |= scan.ranks
        facts.exits += scan.exits
        facts.tracebacks += scan.tracebacks
    by_pid, local_is_rank = _processes(scans, facts)

    def rank_of(told: Told) -> int | None:
        if told.rank is not None:
            return told.rank
        if told.pid is not None and told.pid in by_pid:
            return by_pid[told.pid]
        return told.local_rank if local_is_rank else None

    for scan in scans:
        for number, event in enumerate(scan.events):
            who = scan.writers[number]
            pid = who.pid or _number(event.values.get("pid"))
            rank = event.rank
            if rank is None and pid is not None:
                rank = by_pid.get(pid)
            if rank is None and local_is_rank:
                rank = who.local_rank
            if rank != event.rank:
                event = structs.replace(event, rank=rank)
            facts.shown.append(Shown(event=event, symptom=table[event.symptom], pid=pid))
            size = next((_number(event.values.get(name)) for name in WORLD if event.values.get(name)), None)
            if size:
                facts.world_size = max(size, facts.world_size or 0)
    for told in (*facts.tracebacks, *facts.exits):
        told.rank = rank_of(told)
    facts.ranks |= {told.rank for told in facts.tracebacks if told.rank is not None}
    return facts


WORLD = ("world_size", "nranks", "members", "world")
MOST_RANKS = 1_000_000


def _processes(scans: list[Scan], facts: Facts) -> tuple[dict[int, int], bool]:
    """Process -> rank, and whether a local rank is a rank: there is one node only, as far as the logs tell.

    A process id that two hosts use for different ranks tells nothing.
    """
    by_pid: dict[int, set[int]] = {}
    for ended in facts.exits:
        if ended.pid is not None and ended.rank is not None:
            by_pid.setdefault(ended.pid, set()).add(ended.rank)
    for scan in scans:
        for number, event in enumerate(scan.events):
            pid = scan.writers[number].pid
            if pid is not None and event.rank is not None:
                by_pid.setdefault(pid, set()).add(event.rank)
    rows = [ended for ended in facts.exits if ended.rank is not None and ended.local_rank is not None]
    hosts = {ended.host for ended in rows}
    several = len(hosts) > 1 or any(ended.rank != ended.local_rank for ended in rows)
    return {pid: next(iter(ranks)) for pid, ranks in by_pid.items() if len(ranks) == 1}, not several


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else None


class Moment(Struct, frozen=True):
    """Where something stands: for telling what came first."""

    file: str
    line: int
    time: float | None = None

    def is_before(self, other: "Moment") -> bool:
        """False too where that cannot be told."""
        if self.file == other.file:
            return self.line < other.line
        if self.time is None or other.time is None:
            return False
        return self.time + SAME_MOMENT < other.time
