"""`gpudoctor hang` of jobs on the real ProcessGroupNCCL and NCCL; all of them: `python -m tests.lab.torch_nccl`.

torch's CUDA build and NCCL come from the package index into a cache (tests/lab/nccl/wheels.py): without them these
tests skip, and where the lab is required they are downloaded.
"""

import pytest

from tests.lab.nccl import wheels
from tests.lab.torch_nccl import score
from tests.lab.torch_nccl.looks import View, Wheels, run

pytestmark = pytest.mark.timeout(600)
LIMIT = 120
"""No time-out of the group comes in between."""
BOTH: tuple[View, ...] = ("bare", "container")
BARE = ("uneven_batches", "reads_fifo", "objects_of_one", "order_of_metrics", "evaluate_on_rank0")
CONTAINER = ("killed_by_hand", "index_by_rank0", "stops", "thread_at_exit", "asks_user", "swallowed_exception",
             "different_groups", "unused_parameters")  # fmt: skip
EITHER = ("save_under_rank0", "early_continue", "sleeps", "holds_gil", "breakpoint_left")
"""Started once, and looked at in both ways: the start is most of what such a test costs."""
LOOKS: list[tuple[str, tuple[View, ...]]] = [
    *((name, BOTH[:1]) for name in BARE),
    *((name, BOTH[1:]) for name in CONTAINER),
    *((name, BOTH) for name in EITHER),
]
HEALTHY = ("save_under_rank0", "sleeps")


@pytest.fixture(scope="module")
def release() -> Wheels:
    return Wheels.of(wheels.NEWEST_TORCH)


def check(name: str, views: tuple[View, ...], release: Wheels, *, healthy: bool = False) -> None:
    rows = list(run(name, "plain", release, healthy=healthy, limit=LIMIT, after=False, live=views))
    assert [row.view for row in rows if not row.failed] == [*views], rows
    for row in rows:
        assert set(score.judged(row).values()) == {"right"}, score.line(row)


@pytest.mark.parametrize(("name", "views"), LOOKS)
def test_a_hanging_job_on_nccl(name: str, views: tuple[View, ...], release: Wheels) -> None:
    check(name, views, release)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_living_job_on_nccl(name: str, release: Wheels) -> None:
    check(name, ("container",), release, healthy=True)
