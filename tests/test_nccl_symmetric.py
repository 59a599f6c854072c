"""Symmetric mode: one of us a rank or a node, started by the user's own torchrun or srun."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from hypothesis import given, strategies as st

from gpudoctor.nccl.finding import Finding
from gpudoctor.nccl.rank_messages import Member
from gpudoctor.nccl.result import Grade, TestResult
from gpudoctor.nccl.symmetric import exit_status
from gpudoctor.nccl.symmetric_members import member_findings
from gpudoctor.nccl.symmetric_world import NoWorld, tasks_per_node, world
from tests.lab import warm
from tests.lab.slurm import SlurmCluster, slurm_cluster

SMALL = ("--backend", "gloo", "--min-bytes", "64K", "--max-bytes", "64K", "--iters", "2")
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "61000",
}
SRUN = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "1",
    "SLURM_JOB_NODELIST": "n[1-4]",
    "SLURM_STEP_NODELIST": "n[2-4]",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "2",
}


def test_a_rank_of_torchrun() -> None:
    place = world(TORCHRUN)
    assert (place.launcher, place.is_rank, place.is_first) == ("torchrun", True, False)
    assert (place.size, place.nodes, place.node_rank, place.name) == (8, 2, 1, "rank 5")
    assert world(TORCHRUN | {"RANK": "0"}).is_first


def test_a_node_of_srun() -> None:
    place = world(SRUN)
    assert (place.launcher, place.is_rank, place.is_first) == ("srun", False, False)
    assert (place.master_address, place.master_port) == ("n2", 61000 + 78)
    assert (place.size, place.nodes, place.node_rank, place.variables) == (0, 3, 2, {})


def test_a_rank_of_srun() -> None:
    tasks = {
        "SLURM_STEP_NUM_TASKS": "7",
        "SLURM_STEP_TASKS_PER_NODE": "2(x2),3",
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
    }
    place = world(SRUN | tasks | {"MASTER_ADDR": "10.0.0.2", "MASTER_PORT": "2222"})
    assert place.is_rank and place.size == 7
    assert place.variables == {
        "RANK": "5",
        "WORLD_SIZE": "7",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "3",
        "MASTER_ADDR": "10.0.0.2",
        "MASTER_PORT": "2222",
    }


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "this is no task of srun"),
        (TORCHRUN | {"MASTER_PORT": ""}, "torchrun has not set MASTER_PORT"),
        (TORCHRUN | {"MASTER_PORT": "70000"}, "MASTER_PORT=70000 is no port"),
        (TORCHRUN | {"RANK": "x"}, "RANK='x' is no number"),
        (TORCHRUN | SRUN | {"GROUP_WORLD_SIZE": "1"}, "3 separate tests"),
        (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "2"}, "does not fit 3 tasks on 3 nodes"),
        (SRUN | {"SLURM_NODEID": "3"}, "does not fit"),
        (SRUN | {"SLURM_STEP_NODELIST": "n[2"}, "cannot be read"),
    ],
)
def test_no_way_to_the_others_is_one_line(environment: dict[str, str], words: str) -> None:
    with pytest.raises(NoWorld, match=words) as refused:
        world(environment)
    assert "\n" not in str(refused.value)


names = st.sampled_from([*TORCHRUN, *SRUN])


@given(st.dictionaries(names, st.text(max_size=8) | st.sampled_from(["0", "1", "3", "n[1-3]", "1(x3)"])), st.booleans())
def test_any_environment_gives_a_place_or_one_line(some: dict[str, str], torchrun: bool) -> None:
    try:
        place = world((TORCHRUN if torchrun else SRUN) | some)
    except NoWorld:
        return
    assert place.master_address and 0 < place.master_port < 65536


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), min_size=1, max_size=5))
def test_tasks_per_node(groups: list[tuple[int, int]]) -> None:
    text = ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in groups)
    assert tasks_per_node(text) == tuple(count for count, times in groups for _ in range(times))


# what the ranks told


def members(**changed: object) -> tuple[Member, ...]:
    """Four ranks on two hosts, of which rank 3 is different."""
    alike = [
        Member(rank=rank, world_size=4, host=f"n{rank // 2 + 1}", local_rank=rank % 2, torch="2.9.0", nccl="2.28.9")
        for rank in range(4)
    ]
    return (*alike[:3], msgspec.structs.replace(alike[3], **changed))


def ids(found: tuple[Finding, ...]) -> list[str]:
    return [each.id for each in found]


def test_ranks_that_are_alike() -> None:
    assert member_findings(members(), expected_size=4, expected_nodes=2) == ()
    assert member_findings(members(), expected_size=0, expected_nodes=0) == ()
    assert member_findings((), expected_size=4, expected_nodes=2) == ()


def test_another_nccl() -> None:
    (found,) = member_findings(members(nccl="2.27.3"), expected_size=4, expected_nodes=2)
    assert found.id == "nccl-versions-differ-between-nodes" and found.nodes == ("n2",)
    assert found.problem.summary == "NCCL is 2.28.9 on 3 ranks and 2.27.3 on n2"


def test_another_setting() -> None:
    (found,) = member_findings(members(settings={"NCCL_ALGO": "Ring"}), expected_size=4, expected_nodes=2)
    assert (found.id, found.problem.severity, found.nodes) == ("nccl-settings-differ-between-ranks", "error", ("n2",))
    assert "NCCL_ALGO" in found.problem.summary and "rank 3" in found.problem.summary


def test_another_world() -> None:
    assert ids(member_findings(members(), expected_size=8, expected_nodes=2)) == ["launcher-world-mismatch"]
    assert ids(member_findings(members(), expected_size=4, expected_nodes=4)) == ["world-on-other-nodes"]


def test_torchrun_is_not_told_of_a_mere_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Grade(collective="all_reduce", verdict="degraded", link="PCIe", measured=1.0)
    graded, died = TestResult(grades=(slow,)), TestResult(outcome="died")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert (exit_status(graded), exit_status(died)) == (1, 1)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    assert (exit_status(graded), exit_status(died)) == (0, 1)


# really


def torchrun(*options: str) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    return [*launcher, "-m", "gpudoctor.nccl", *SMALL, *options]


@pytest.fixture
def own(tmp_path: Path) -> dict[str, str]:
    """An environment in which torchrun leaves its folder of logs (torchelastic_*) in the test's."""
    return {**os.environ, "TMPDIR": str(tmp_path)}


def test_under_torchrun_one_answer_is_printed(own: dict[str, str]) -> None:
    done = subprocess.run(torchrun(), env=own, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("world size 2 as the ranks see it") == 1
    assert "gloo over CPU, not NCCL" in done.stdout
    assert sum(line.split()[:1] == ["65536"] for line in done.stdout.splitlines()) == 1


def test_under_torchrun_wrong_usage_is_refused(own: dict[str, str]) -> None:
    environment = own | warm.by_others()
    done = subprocess.run(
        torchrun("--find-slow"), env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1 and "without srun or torchrun" in done.stderr


def test_under_torchrun_a_rank_that_dies_ends_all(own: dict[str, str]) -> None:
    started = subprocess.Popen(
        torchrun("--iters", "1000000"), env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with started:
        family = psutil.Process(started.pid)
        ranks = wait_for_ranks(family)
        everybody = family.children(recursive=True)
        ranks[1].send_signal(signal.SIGKILL)
        output, errors = started.communicate(timeout=100)
    assert started.returncode == 1
    assert "SIGKILL" in output + errors
    gone, alive = psutil.wait_procs(everybody, timeout=30)
    assert not alive and gone


def wait_for_ranks(family: psutil.Process) -> list[psutil.Process]:
    """The rank programs, once both have begun to speak to torch."""
    end = time.monotonic() + 150  # torchrun imports torch, then each of them
    while time.monotonic() < end:
        found = [child for child in family.children(recursive=True) if is_rank(child)]
        if len(found) == 2 and all(child.num_threads() > 3 for child in found):
            return found
        time.sleep(0.05)
    raise AssertionError("the ranks did not start")


def is_rank(process: psutil.Process) -> bool:
    try:
        return "collective" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster(3) as made:
        yield made


@pytest.mark.parametrize(
    ("tasks", "wanted"),
    [(("--nodes=3",), "world size 3"), (("--nodes=2", "--ntasks-per-node=2"), "world size 4")],
    ids=["a task a node", "a task a rank"],
)
def test_under_srun_one_answer_is_printed(cluster: SlurmCluster, tasks: tuple[str, ...], wanted: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    words = ["srun", "--quiet", *tasks, "gpudoctor", "nccl-test", *SMALL]
    done = subprocess.run(
        cluster.nodes[0].command(*words),
        env=cluster.environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"{wanted} as the ranks see it") == 1, done.stdout
    assert cluster.left_over() == []
