"""Ranks that wait for each other in two groups: whose calls are in another order than those of all others."""

from collections.abc import Sequence

from gpudoctor.hang.job import HangJob
from gpudoctor.snapshot.evidence import Collective, Recorder

Calls = list[tuple[str, tuple[tuple[int, ...], ...]]]
"""What a rank has called since all were last together, by operation and sizes: the groups of each have their own
names."""


def out_of_order(job: HangJob, group: str, ranks: Sequence[int]) -> list[int]:
    """The fewer of these ranks, whose calls since the last that all have ended in a group do not go with the calls of
    the others, which go with each other; [] where that is not so."""
    dumps = {dump.rank: dump for dump in job.evidence.dumps if dump.rank is not None}
    found = {number: dumps[number] for number in ranks if number in dumps}
    found |= {rank.rank: rank.evidence.recorder for rank in job.ranks if rank.evidence.recorder is not None}
    ended = [_ended(found[number], group) for number in ranks if number in found]
    together = set[int].intersection(*ended) if len(ended) == len(ranks) > 2 else set()
    if not together:
        return []
    since = {number: _since(found[number], group, max(together)) for number in ranks}
    with_others = {one: [other for other in ranks if _go(since[one], since[other])] for one in ranks}
    most = max(map(len, with_others.values()))
    alike = [number for number in ranks if len(with_others[number]) == most]
    odd = [number for number in ranks if number not in alike]
    agreed = all(_go(since[one], since[other]) for one in alike for other in alike)
    return odd if agreed and 0 < len(odd) < len(alike) else []


def _ended(recorder: Recorder, group: str) -> set[int]:
    return {entry.sequence for entry in _of(recorder, group) if entry.state == "completed"}


def _of(recorder: Recorder, group: str) -> list[Collective]:
    return [entry for entry in recorder.entries if entry.group == group and not entry.point_to_point]


def _since(recorder: Recorder, group: str, last: int) -> Calls:
    entries = recorder.entries
    begins = max(at for at, entry in enumerate(entries) if (entry.group, entry.sequence) == (group, last))
    return [(entry.operation, entry.input_sizes) for entry in entries[begins + 1 :]]


def _go(one: Calls, other: Calls) -> bool:
    """Whether one may be where the other was before."""
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))
