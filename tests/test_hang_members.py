"""Process groups of one name that ranks have made with unlike members."""

import pytest

from gpudoctor.hang.causes.collective_members import conflicts, odd_ones
from gpudoctor.hang.conclude import conclude
from gpudoctor.snapshot.evidence import Collective, Evidence, Group, Recorder
from gpudoctor.sure import PROVED

Groups = dict[str, tuple[int, ...]]
MESH: dict[int, tuple[Groups, str]] = {
    0: ({"1": (0, 1), "3": (0, 2)}, "3"),
    1: ({"1": (0, 1), "4": (1, 3)}, "4"),
    2: ({"2": (2, 3), "3": (0, 2)}, "2"),
    3: ({"1": (0, 1, 2, 3), "5": (3,)}, "1"),
}
"""A mesh of two by two, which rank 3 has cut into one by four (tests/lab/hangs/cuda/mesh_of_other_shape.py): by rank
its groups, in the order in which torch numbers them, and the one in which it waits."""


def _recorders(ranks: dict[int, tuple[Groups, str]]) -> dict[int, Recorder]:
    made = {}
    for rank, (groups, stands) in ranks.items():
        first = Collective(group="0", sequence=1, operation="all_reduce", state="completed")
        waits = Collective(group=stands, sequence=1, operation="all_reduce", state="scheduled")
        told = tuple(Group(key=key, ranks=members) for key, members in {"0": tuple(ranks), **groups}.items())
        made[rank] = Recorder(source=f"/d/{rank}", rank=rank, backend="nccl", groups=told, entries=(first, waits))
    return made


def test_who_has_cut_a_mesh_otherwise_is_named_alone() -> None:
    """A ring of waits through these groups named all four, with certainty."""
    [job] = conclude(Evidence(dumps=tuple(_recorders(MESH).values()))).jobs
    first = job.causes[0]
    assert (first.cause, first.ranks, first.confidence) == ("collective-order-mismatch", (3,), PROVED)
    assert "group 1 is of ranks 0-3 on rank 3, and of ranks 0-1 on rank 0" in first.summary


@pytest.mark.parametrize(
    ("groups", "odd"),
    [
        ([{"tp": (0, 1)}, {"tp": (0, 1)}, {"tp": (2, 3)}, {"tp": (2, 3)}], None),  # one name, two groups
        ([{"tp": (0, 1)}, {}, {"tp": (2, 3)}, {"tp": (2, 3)}], None),  # not made there yet
        ([{"tp": (0, 1)}, {"tp": (1, 2)}], [0, 1]),  # of as many on each side, either
    ],
)
def test_one_name_may_be_of_several_groups(groups: list[Groups], odd: list[int] | None) -> None:
    found = conflicts(_recorders({rank: (own, "0") for rank, own in enumerate(groups)}))
    assert (odd_ones(found) if found else None) == odd
