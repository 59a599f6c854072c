"""Which of a start's processes are ranks of its process group: with RPC, some of them may not be."""

from collections.abc import Sequence

from gpudoctor.lint.courses.follow import RankCourse


def members(ranks: Sequence[RankCourse]) -> tuple[RankCourse, ...]:
    """Those that join a group which is smaller than the start, where no more are left out than it has no place for;
    else all of them."""
    joined = {
        each.seat.rank: deed.value
        for each in ranks
        for deed in each.deeds
        if deed.what == "join" and deed.is_sure and isinstance(deed.value, tuple)
    }
    worlds = {value[1] for value in joined.values()}
    world = next(iter(worlds)) if len(worlds) == 1 else None
    if type(world) is not int or len({value[0] for value in joined.values()}) != len(joined):
        return tuple(ranks)
    own = [value[0] for value in joined.values()]
    spare = max(each.seat.world for each in ranks) - world
    inside = all(type(rank) is int and 0 <= rank < world for rank in own)
    if not inside or not 0 < len(ranks) - len(joined) <= spare:
        return tuple(ranks)
    return tuple(each for each in ranks if each.seat.rank in joined)
