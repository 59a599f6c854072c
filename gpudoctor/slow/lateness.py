"""Who is late: each rank's lateness at each collective of a group, and whether one stands out from all others, always.

A rank that is slow comes late to what all ranks must come to; the others wait for it there, and their steps last as
long as its own. So step times tell nothing, and lateness does. What comes and goes evenly is noise: a rank counts as
late that is so in nearly all parts of what was looked at, and by more than the others differ from each other.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from statistics import fmean, median, stdev

from msgspec import Struct, structs

from gpudoctor.slow.times import LEAST, GroupTimes, of_a_step, rounds

PARTS = 8
"""Into which the collectives are cut, one after the other."""
MOST_PARTS_WITHOUT = 1
"""In so many of them a late rank may be no later than others."""
WORTH_SAYING = 0.04
"""Of the time of a step: our rule of thumb. A rank that is 10% slower in a step of 200 ms costs 9%."""
LEAST_SECONDS = 0.001
"""Below a millisecond the scheduler of the operating system decides."""
SURE = 4.0
"""Standard errors of its parts by which it is late."""
ALSO_LATE = 0.5
"""Of the latest one's lateness: these are late together (a node, a pair that waits for each other)."""
RARE = 0.02
"""Of the rounds, those in which most was lost are left out of sums: a checkpoint, a scheduler's whim."""


class GroupPace(Struct, frozen=True, kw_only=True):
    """What the collectives of one group say."""

    key: str
    description: str
    ranks: tuple[int, ...]
    collectives: int
    seconds: float
    step_seconds: float
    """Of a step, or of a collective where no series of them repeats itself."""
    is_step: bool
    lateness: dict[int, float]
    """By rank, seconds: how much later it came than the others, in the mean; below 0 it waited."""
    late: tuple[int, ...] = ()
    lost_seconds: float = 0.0
    """Of each step, that all others wait for these."""
    waited_share: float = 0.0
    """Of the time of all ranks together, spent waiting for the last one."""
    timed: bool = False
    runs_ahead: bool = False
    """The CPUs issue collectives long before their GPUs come to them: whose CPU is late does not tell whose GPU is."""
    backend: str = ""
    names: tuple[str, ...] = ()
    """Of the collectives of a step."""
    grows: tuple[float, ...] = ()
    """The late ranks' lateness at each collective of a step."""

    @property
    def share(self) -> float:
        """Of a step, that is lost."""
        return min(1.0, self.lost_seconds / self.step_seconds) if self.step_seconds > 0 else 0.0


def pace_of(group: GroupTimes, uncertainty: float = 0.0) -> GroupPace:
    """`uncertainty`: seconds by which clocks of different nodes may differ; within a node there is none. Where nobody
    is late in the whole of it, the later half is asked: who reads ahead is late once what it had read is used up."""
    whole = _pace_of(group, uncertainty)
    since = min(len(group.came) // 2, len(group.came) - LEAST)
    if whole.late or since <= 0:
        return whole
    half = structs.replace(group, came=group.came[since:], names=group.names[since:])
    now = _pace_of(half, uncertainty)
    return now if now.late else whole


def _pace_of(group: GroupTimes, uncertainty: float) -> GroupPace:
    step = of_a_step(group.names)
    stretches = rounds(group)
    later = _later(group, step)
    stands_out = _stands_out(later)
    length = _step_seconds(group, stretches, step)
    late = _late(group, stands_out, length, uncertainty)
    if not late:  # what comes each tenth step is rare in a part of twenty, and has come in every part
        every = _stands_out(later, rare=0)
        if late := _late(group, every, length, uncertainty):
            stands_out = every
    lateness = {rank: round(fmean(each), 6) for rank, each in zip(group.ranks, stands_out, strict=True)}
    lost = _trimmed([_lost(group, late, *stretch) for stretch in stretches]) if late else 0.0
    if late and (lost < LEAST_SECONDS or lost < WORTH_SAYING * length):
        late, lost = [], 0.0
    waited = _trimmed([_waited(group, *stretch) for stretch in stretches])
    return GroupPace(
        key=group.key,
        description=group.description,
        ranks=group.ranks,
        collectives=len(group.came),
        seconds=round(group.seconds, 3),
        step_seconds=round(length, 6),
        is_step=step > 0,
        lateness=lateness,
        late=tuple(group.ranks[at] for at in late),
        lost_seconds=round(lost, 6),
        waited_share=round(min(1.0, waited / length), 4) if length > 0 else 0.0,
        timed=group.timed,
        runs_ahead=len(stretches) < max(2, len(group.came) // max(1, step) // 4),
        backend=group.backend,
        names=group.names[-step:] if step else (),
        grows=_by_place(group, late, step) if late and 1 < step <= 64 else (),
    )


def _later(group: GroupTimes, step: int) -> list[list[list[list[float]]]]:
    """By collective of a step (all are alike where there are no steps, or too few), part and rank: how much later than
    all in the mean it came, each time."""
    places = range(step if 0 < 2 * PARTS * step <= len(group.came) else 1)
    return [_parts(group.came[place :: len(places)]) for place in places]


def _parts(came: Sequence[tuple[float, ...]]) -> list[list[list[float]]]:
    count = len(came)
    parts = []
    for number in range(PARTS):
        own = came[count * number // PARTS : count * (number + 1) // PARTS]
        means = [fmean(times) for times in own]
        parts.append([[times[at] - mean for times, mean in zip(own, means, strict=True)] for at in range(len(came[0]))])
    return parts


def _stands_out(later: Sequence[Sequence[Sequence[Sequence[float]]]], rare: int = 1) -> list[list[float]]:
    """By rank and part: how much later than the others it comes, to the collective of a step at which one of them is
    latest. `rare`: so many of each end of a part do not count."""
    outliers: list[list[float]] = []
    most = -1.0
    for place in later:
        parts = [[_trimmed(each, rare) for each in part] for part in place]
        own = [[_against_others(part, at) for part in parts] for at in range(len(parts[0]))]
        if (latest := max(fmean(each) for each in own)) > most:
            most, outliers = latest, own
    return outliers


def _against_others(part: Sequence[float], at: int) -> float:
    return part[at] - median([*part[:at], *part[at + 1 :]])


def _late(group: GroupTimes, stands_out: Sequence[Sequence[float]], step: float, uncertainty: float) -> list[int]:
    """The places of those that are late, in nearly every part."""
    means = [fmean(excess) for excess in stands_out]
    most = max(means)
    late = []
    for at, own in enumerate(stands_out):
        mean = means[at]
        if mean < max(LEAST_SECONDS, ALSO_LATE * most, WORTH_SAYING / 2 * step):
            continue
        without = sum(each < mean / 4 for each in own)
        error = stdev(own) / len(own) ** 0.5
        if without <= MOST_PARTS_WITHOUT and mean >= SURE * error:
            late.append(at)
    if 2 * len(late) > len(group.ranks) or (len(group.ranks) == 2 and len(late) != 1):
        return []
    others = {group.nodes[at] for at in range(len(group.ranks)) if at not in late}
    if uncertainty and any(group.nodes[at] not in others for at in late) and most < 4 * uncertainty:
        return []
    return late


def _trimmed(values: Sequence[float], rare: int = 1) -> float:
    """The mean without the rarest of each end, so many at least."""
    if not values:
        return 0.0
    cut = max(rare, round(RARE * len(values))) if len(values) >= 8 else 0
    return fmean(sorted(values)[cut : len(values) - cut])


def _step_seconds(group: GroupTimes, stretches: Sequence[tuple[int, int]], step: int) -> float:
    """How long a stretch takes from the beginning of one to that of the next; where there is one only, a collective."""
    begins = [min(group.came[begin]) for begin, _ in stretches]
    if len(begins) >= 3:
        return median(after - before for before, after in pairwise(begins))
    per_collective = group.seconds / max(1, len(group.came) - 1)
    return per_collective * max(1, step)


def _lost(group: GroupTimes, late: Collection[int], begin: int, end: int) -> float:
    """What all would have saved in a stretch, had these come with the last of the others: at most where they are
    latest, for lateness that is carried on is not lost twice."""
    most = 0.0
    for times in group.came[begin:end]:
        last = max(times[at] for at in late)
        others = max(time for at, time in enumerate(times) if at not in late)
        most = max(most, last - others)
    return most


def _waited(group: GroupTimes, begin: int, end: int) -> float:
    """For how long a rank waits in a stretch, in the mean of all ranks."""
    return max(max(times) - fmean(times) for times in group.came[begin:end])


def _by_place(group: GroupTimes, late: Collection[int], step: int) -> tuple[float, ...]:
    """Lateness at each collective of the last steps, the last collective of a step at the end."""
    whole = len(group.came) // step * step
    own = group.came[len(group.came) - whole :]
    places = []
    for place in range(step):
        differences = []
        for times in own[place::step]:
            others = median(time for at, time in enumerate(times) if at not in late)
            differences.append(median(times[at] for at in late) - others)
        places.append(round(median(differences), 6))
    return tuple(places)


def roots(paces: Sequence[GroupPace]) -> list[GroupPace]:
    """Of the groups in which somebody is late, those whose late ranks wait for nobody elsewhere: who waits for its
    partner in one group comes late to every other with it."""
    group_paces = [pace for pace in paces if pace.late]
    kept = []
    for pace in group_paces:
        own = set(pace.late)
        waits = any(
            own & {*other.ranks} and not own & {*other.late} and other.lost_seconds >= pace.lost_seconds / 2
            for other in group_paces
            if other is not pace
        )
        if not waits:
            kept.append(pace)
    return sorted(kept or group_paces[:1], key=lambda pace: -pace.share)
