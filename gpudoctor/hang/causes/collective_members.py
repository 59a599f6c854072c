"""Ranks that have made a process group of one name with unlike members: whose list nobody else of that list has, waits
for ranks that know nothing of it (a mesh cut by what each counts on its own node)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from gpudoctor.hang.causes import PROVED, SEEN, HangCause, HangJob, Seen, blame
from gpudoctor.hang.extra_calls import recorders_of
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.words import at, ranks_of, verb
from gpudoctor.snapshot.evidence import Collective, Recorder
from gpudoctor.sure import BEST

DEFAULT = "0"
MOST_TOLD = 4
MadeApart = tuple[int, int, str]
"""A rank, another one of which its list has that has not the same, and the group."""


def conflicts(recorders: Mapping[int, Recorder]) -> list[MadeApart]:
    """Two ranks that have unlike members of one group; the first has the second in its list. Of the default group the
    launcher tells, and a group that one of them does not know yet may come."""
    owners: defaultdict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
    own: defaultdict[tuple[int, str], set[tuple[int, ...]]] = defaultdict(set)
    for rank, recorder in recorders.items():
        for group in recorder.groups:
            if group.ranks and group.key != DEFAULT:
                owners[group.key, group.ranks].append(rank)
                own[rank, group.key].add(group.ranks)
    return [
        (rank, other, key)
        for (key, members), having in owners.items()
        for other in members
        if (theirs := own.get((other, key))) and members not in theirs
        for rank in having[:MOST_TOLD]
    ]


def odd_ones(found: list[MadeApart]) -> list[int]:
    """The fewest ranks without which all are of one mind; all of them where as many could be blamed."""
    open_ones = {frozenset(pair[:2]) for pair in found}
    odd: list[int] = []
    while open_ones:
        counted = Counter(rank for pair in open_ones for rank in pair)
        (most, number), *rest = counted.most_common()
        if rest and rest[0][1] == number:
            return sorted(set(odd) | set(counted))
        odd.append(most)
        open_ones = {pair for pair in open_ones if most not in pair}
    return sorted(odd)


def members_apart(job: HangJob) -> Iterator[HangCause]:
    """Who has made a group of other members than those that it names have."""
    agreement = job.agreement
    if agreement is None or agreement.first is None or progress_of(job).verdict == "moves":
        return
    recorders = recorders_of(job)
    if not (found := conflicts(recorders)):
        return
    odd = odd_ones(found)
    rank, other, key = next((each for each in found if each[0] in odd), found[0])
    waits = _waits_in(recorders[rank], key)
    every = {frozenset(pair[:2]) for pair in found}
    mine, theirs = (_members(recorders[each], key) for each in (rank, other))
    frame = waits.frames[0] if waits is not None and waits.frames else None
    sure = PROVED if all(not pair <= set(odd) for pair in every) else SEEN
    yield blame(
        "collective-order-mismatch",
        BEST if agreement.stale else sure,  # a file of before may tell of groups that are made anew
        odd,
        f"{ranks_of(odd)} {verb(odd, 'has', 'have')} made other process groups than the ranks in them: "
        f"group {key} is of {mine} on rank {rank}, and of {theirs} on rank {other}{at(frame)}",
        [
            Seen(f"flight recorder of rank {each}", f"group {key} of {_members(recorders[each], key)}")
            for each in (rank, other)
        ],
        at=frame,
    )


def _members(recorder: Recorder, key: str) -> str:
    return "; ".join(ranks_of(group.ranks) for group in recorder.groups if group.key == key and group.ranks)


def _waits_in(recorder: Recorder, key: str) -> Collective | None:
    return next((entry for entry in recorder.entries if entry.group == key and entry.state != "completed"), None)


RULES = (members_apart,)
