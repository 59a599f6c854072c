"""Puts together what several logs show: whose rank a process is, and what came before what."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from gpudoctor.explain.attended import Attended
from gpudoctor.explain.report import Line
from gpudoctor.explain.scan import Event, Scan, Told, ToldExit, ToldStack, ToldTraceback, number_in


class Facts(Struct, kw_only=True):
    """Everything that the logs show."""

    events: list[Event] = field(default_factory=list)
    tracebacks: list[ToldTraceback] = field(default_factory=list)
    survived: list[ToldTraceback] = field(default_factory=list)
    """Those after which the job got on: of a thread, or caught."""
    stacks: list[ToldStack] = field(default_factory=list)
    exits: list[ToldExit] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    """Ranks that wrote something."""
    own_ranks: set[int] = field(default_factory=set)
    """Those with whose numbers lines of the program begin."""
    said_last: dict[int, Line] = field(default_factory=dict)
    """Of each rank the last that its program wrote before the time of a collective was up."""
    gets_on: set[int] = field(default_factory=set)
    """Ranks that made progress behind what torch had told them of a time-out, while others waited on."""
    world_size: int | None = None
    lines: dict[str, int] = field(default_factory=dict)
    """File -> its lines."""
    begun: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """File -> where its later runs begin, of which the last one is told."""
    earlier: list[Told] = field(default_factory=list)
    """What the runs before told."""

    @property
    def alone(self) -> bool:
        """Nothing in the logs speaks of several ranks or nodes."""
        told: tuple[Told, ...] = (*self.events, *self.tracebacks)
        several = len({each.host for each in told if each.host}) > 1
        return not (self.ranks or self.exits or self.world_size or several)


def put_together(scans: list[Scan], attended: Mapping[str, Attended] = MappingProxyType({})) -> Facts:
    """The facts of all logs, ranks filled in where a process, a local rank or whoever attended the job tells them."""
    facts = Facts(lines={scan.file: scan.lines for scan in scans})
    facts.begun = {scan.file: scan.begun for scan in scans if scan.begun}
    facts.earlier = [told for scan in scans for told in scan.earlier]
    for scan in scans:
        facts.ranks |= scan.ranks
        facts.own_ranks |= scan.own_ranks
        facts.said_last |= scan.said_last
        facts.events += scan.events
        facts.exits += scan.exits
        facts.stacks += scan.stacks
        facts.tracebacks += scan.tracebacks
    by_pid, local_is_rank = _processes(facts)
    every: tuple[Told, ...] = (*facts.events, *facts.tracebacks, *facts.stacks, *facts.exits)
    for speaker in every:
        if speaker.rank is None and speaker.pid is not None:
            speaker.rank = by_pid.get(speaker.pid)
        if speaker.rank is None and local_is_rank:
            speaker.rank = speaker.local_rank
    for file in {ended.at.file for ended in facts.exits}:
        _belongs_to_the_one_that_failed(facts, file)
    for file, seen in attended.items():
        if seen.failed_alone is not None and not any(ended.at.file == file for ended in facts.exits):
            _belongs_to(facts, file, seen.failed_alone, facts.lines.get(file, 0) + 1)
    sizes = [size for event in facts.events if (size := number_in(event.values.get("world_size")))]
    facts.world_size = max(sizes, default=None)
    facts.ranks |= {traceback.rank for traceback in facts.tracebacks if traceback.rank is not None}
    return facts


def _processes(facts: Facts) -> tuple[dict[int, int], bool]:
    """Process -> rank, and whether a local rank is a rank: there is one node only, as far as the logs tell.

    A process id that two hosts use for different ranks tells nothing.
    """
    by_pid: dict[int, set[int]] = {}
    for speaker in (*facts.exits, *facts.events):
        if speaker.pid is not None and speaker.rank is not None:
            by_pid.setdefault(speaker.pid, set()).add(speaker.rank)
    rows = [ended for ended in facts.exits if ended.rank is not None and ended.local_rank is not None]
    hosts = {ended.host for ended in rows}
    several = len(hosts) > 1 or any(ended.rank != ended.local_rank for ended in rows)
    several |= any(ended.exit.exitcode is not None and ended.local_rank is None for ended in facts.exits)  # two tables
    return {pid: next(iter(ranks)) for pid, ranks in by_pid.items() if len(ranks) == 1}, not several


def _belongs_to_the_one_that_failed(facts: Facts, file: str) -> None:
    """Give an exception that nobody signed to the only rank that ended with one, by its launcher's table.

    Without a prefix (torch before 2.2, and any rank before init_process_group) a traceback does not tell whose it is.
    Ranks that the launcher ended, by a signal, wrote none.
    """
    exits = [ended for ended in facts.exits if ended.at.file == file and ended.exit.exitcode is not None]
    failed = {ended.rank for ended in exits if ended.exit.exitcode is not None and ended.exit.exitcode > 0}
    if len(failed) == 1 and (rank := failed.pop()) is not None:
        _belongs_to(facts, file, rank, min(ended.at.line for ended in exits))


def _belongs_to(facts: Facts, file: str, rank: int, tabled: int) -> None:
    """Exceptions before the line `tabled`, where no one of the file is signed."""
    tracebacks = [traceback for traceback in facts.tracebacks if traceback.at.file == file]
    if any(traceback.rank is not None or traceback.pid is not None for traceback in tracebacks):
        return
    own_lines: set[int] = set()
    for told in tracebacks:
        if told.traceback.last_line < tabled and told.traceback.raised:
            told.rank = rank
            own_lines.update(range(told.traceback.first_line, told.traceback.last_line + 1))
    for event in facts.events:
        if event.at.file == file and event.rank is None and event.at.line in own_lines:
            event.rank = rank
