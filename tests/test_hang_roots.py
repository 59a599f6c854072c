"""Gathers and the like, whose root waits for others, and which end on a rank that is no root before all have come."""

import time
from typing import Literal

import pytest

from gpudoctor.hang.conclude import conclude
from gpudoctor.snapshot.evidence import Collective, Evidence, Frame, Group, Recorder

LINE = Frame("collect", "/home/mara/train.py", 15)


def gathered(number: int, root: bool, state: Literal["scheduled", "completed"]) -> Collective:
    parts = ((64,), (64,), (64,)) if root else ((0,),)
    return Collective(
        group="0",
        sequence=number,
        operation="gather",
        input_sizes=((64,),),
        output_sizes=parts,
        dtypes=("float32",),
        frames=(LINE,),
        state=state,
    )


def recorder(rank: int, *entries: Collective) -> Recorder:
    groups = (Group(key="0", ranks=(0, 1, 2)),)
    return Recorder(source="dump", rank=rank, backend="nccl", entries=entries, total=len(entries), groups=groups)


@pytest.mark.parametrize(("also", "told"), [((), []), ((1,), [(1,)]), ((1, 2), [(1, 2)])])
def test_ranks_that_take_themselves_for_the_root(also: tuple[int, ...], told: list[tuple[int, ...]]) -> None:
    dumps = tuple(
        recorder(rank, gathered(1, rank == 0, "completed"), gathered(2, rank in (0, *also), "scheduled"))
        for rank in range(3)
    )
    (job,) = conclude(Evidence(dumps=dumps, time=time.time())).jobs
    assert [cause.ranks for cause in job.causes if "for the root of gather #2" in cause.summary] == told
    assert not told or (job.causes[0].cause, job.causes[0].ranks) == ("rank-divergent-decision", told[0])


def test_of_a_gather_that_is_over_nothing_is_told() -> None:
    dumps = tuple(recorder(rank, gathered(1, rank < 2, "completed"), gathered(2, True, "completed")) for rank in (0, 1))
    assert not [cause for job in conclude(Evidence(dumps=dumps, time=time.time())).jobs for cause in job.causes]
