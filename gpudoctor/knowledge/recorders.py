"""Who waits and who did not come, by the flight recorders of a job that is gone."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpudoctor.knowledge.places import is_user
from gpudoctor.snapshot.evidence import Collective, Frame, Recorder


class PartedBy(NamedTuple):
    waiting: tuple[int, ...]
    stack: tuple[Frame, ...]
    """Of the program, where all of these have made their last call, innermost first."""
    away: Mapping[int, Collective]
    """By rank, with nothing open: the last that it has come to."""


def parted_by(dumps: Sequence[Recorder]) -> PartedBy | None:
    """None unless all that wait do so at one line, and somebody has nothing open."""
    last = {dump.rank: dump.entries[-1] for dump in dumps if dump.rank is not None and dump.entries}
    open_ones = {dump.rank for dump in dumps if any(entry.state != "completed" for entry in dump.entries)}
    waiting = sorted(rank for rank in last if rank in open_ones)
    stacks = {tuple(filter(is_user, last[rank].frames)) for rank in waiting}
    away = {rank: entry for rank, entry in last.items() if rank not in open_ones}
    stack = next(iter(stacks), ())
    return PartedBy(tuple(waiting), stack, away) if away and len(stacks) == 1 and stack else None
