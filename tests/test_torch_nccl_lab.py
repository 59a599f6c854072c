"""`gpudoctor hang` of jobs on the real ProcessGroupNCCL and NCCL; all of them: `python -m tests.lab.torch_nccl`.

torch's CUDA build and NCCL come from the package index into a cache (tests/lab/nccl/wheels.py): without them these
tests skip, and where the lab is required they are downloaded.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import machines
from tests.lab.nccl import wheels
from tests.lab.nvidia import fake_nvidia
from tests.lab.slow.jobs import SlowScenario, started
from tests.lab.sshd import user_environment
from tests.lab.torch_nccl import score
from tests.lab.torch_nccl.looks import View, Wheels, environment, free_port, meeting_place, run

pytestmark = pytest.mark.timeout(600)
LIMIT = 120
"""No time-out of the group comes in between."""
BOTH: tuple[View, ...] = ("bare", "container")
BARE = ("uneven_batches", "reads_fifo", "objects_of_one", "order_of_metrics", "evaluate_on_rank0")
CONTAINER = ("killed_by_hand", "index_by_rank0", "stops", "thread_at_exit", "asks_user", "swallowed_exception",
             "different_groups", "unused_parameters", "hook_asks_queue")  # fmt: skip
EITHER = ("save_under_rank0", "early_continue", "sleeps", "holds_gil", "breakpoint_left")
"""Started once, and looked at in both ways: the start is most of what such a test costs."""
LOOKS: list[tuple[str, tuple[View, ...]]] = [
    *((name, BOTH[:1]) for name in BARE),
    *((name, BOTH[1:]) for name in CONTAINER),
    *((name, BOTH) for name in EITHER),
]
HEALTHY = ("save_under_rank0", "sleeps")
AS_ON_GPUS = ("early_continue", "sleeps")
"""The ranks of these wait with all that the processors have; those of the others leave something to other tests."""


@pytest.fixture(scope="module")
def release() -> Wheels:
    return Wheels.of(wheels.NEWEST_TORCH)


def check(name: str, views: tuple[View, ...], release: Wheels, *, healthy: bool = False) -> None:
    spares = name not in AS_ON_GPUS
    rows = list(run(name, "plain", release, healthy=healthy, limit=LIMIT, after=False, live=views, spares=spares))
    assert [row.view for row in rows if not row.failed] == [*views], rows
    for row in rows:
        assert set(score.judged(row).values()) == {"right"}, score.line(row)


@pytest.mark.parametrize(("name", "views"), LOOKS, ids=[name for name, _ in LOOKS])
def test_a_hanging_job_on_nccl(name: str, views: tuple[View, ...], release: Wheels) -> None:
    check(name, views, release)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_living_job_on_nccl(name: str, release: Wheels) -> None:
    check(name, ("container",), release, healthy=True)


UNLIKE = """
import os, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
own = torch.ones(512 << rank, device="cuda")
dist.all_reduce(own)
torch.cuda.synchronize()
print("over", flush=True)
os._exit(0)
"""


def test_small_sums_of_unlike_sizes_end_as_on_gpus(tmp_path: Path, release: Wheels) -> None:
    """512 numbers and 1,024 do not hang over sockets, and nobody says a word (docs/measured/gpu.md)."""
    with meeting_place() as place, fake_nvidia(machines.hgx_h100()) as around:
        variables = {**os.environ, **around, **environment(release, "plain", tmp_path, place)}
        del variables["FAKE_NCCL_SMALL"]
        variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", UNLIKE], env=variables | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True
            )
            for rank in (0, 1)
        ]
        try:
            assert [rank.communicate(timeout=240)[0].strip() for rank in ranks] == ["over", "over"]
        finally:
            for rank in ranks:
                rank.kill()


def test_a_late_rank_is_told_by_the_recorder_of_nccl(tmp_path: Path, release: Wheels) -> None:
    """A build for CUDA also has the recorder of gloo, which is empty in such a job: `slow` once asked that one."""
    scenario = SlowScenario("late", ("--gpu", "--at", "input", "--rank", "1", "--ms", "40", "--step-ms", "1"), 1)
    with meeting_place() as place, fake_nvidia(machines.hgx_h100()) as around:
        variables = {**around, **environment(release, "plain", tmp_path, place)}
        with started(scenario._replace(ranks=2, variables=tuple(variables.items())), tmp_path) as pid:
            words = [sys.executable, "-m", "gpudoctor", "slow", "--pid", str(pid), "--json"]
            done = subprocess.run(words, capture_output=True, env=user_environment() | around, timeout=200)
    (pace,) = json.loads(done.stdout)["paces"]
    assert (done.returncode, [slow["ranks"] for slow in pace["slow"]]) == (1, [[1]]), pace
