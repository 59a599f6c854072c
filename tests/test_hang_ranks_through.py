"""Ranks that left with status 0 while others wait for them to begin, on hand-made jobs; and what looks alike.

Nothing prints a word of this: the launcher is content. Real jobs of it: `leaves_at_once` and `leaves_unseen` of
tests/lab/hangs/training.py.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.job import HangJob
from gpudoctor.hang.report import JobReport
from gpudoctor.knowledge.places import Kind
from tests.hang_jobs import a_job, is_in, launcher, member, place_at, waits

LEFT = "rank-divergent-decision"
TWO_NODES = ("torchrun", "--nnodes=2", "--nproc-per-node=2", "--rdzv-endpoint=a:29500", "train.py")


def begins(rank: int, operation: str = "init_process_group", kind: Kind = "communicator init", **more: Any) -> Any:
    here = more.pop("here", 3)
    environment = {"LOCAL_WORLD_SIZE": str(here)}
    return is_in(rank, kind, operation, at=20, environment=environment, local_rank=rank % here, **more)


def watched(job: HangJob, *operations: str) -> HangJob:
    """With launchers that are at these places."""
    places = [place_at("exit" if each == "_exit_barrier" else "sleep", each) for each in operations]
    launchers = [replace(each, place=place) for each, place in zip(job.launchers, places, strict=True)]
    return replace(job, launchers=tuple(launchers))


def torchrun(*options: str) -> dict[str, Any]:
    return {"a": launcher(command=("torchrun", *options, "--nproc-per-node=3", "train.py"))}


def left(**more: Any) -> HangJob:
    """Rank 1 of three is not there, and torchrun watches the others."""
    starters = more.pop("launchers", torchrun())
    return watched(a_job(begins(0, **more), begins(2, **more), world_size=3, launchers=starters), "_invoke_run")


def zombie(rank: int, status: int = 0, **more: Any) -> Any:
    return member(rank, place_at("unknown"), state="Z", exit_code=status, samples=0, **more)


def hidden(one: Any) -> Any:
    """Its process belongs to somebody into whose processes the reader may not look."""
    return replace(one, evidence=replace(one.evidence, process=replace(one.evidence.process, environment_read=False)))


def ended_meanwhile(rank: int) -> Any:
    """Alive when its status was read, and a zombie in the last sample: of what status, nobody has seen."""
    one = member(rank, place_at("unknown"), state="Z")
    return replace(one, evidence=replace(one.evidence, process=replace(one.evidence.process, state="R")))


def reported(job: HangJob) -> JobReport:
    unread: list[Any] = []
    report = conclude_job(job, unread)
    assert unread == [], "a rule failed"
    return report


def sure(job: HangJob) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.cause, each.ranks) for each in reported(job).causes if each.confidence >= 0.5]


over_nodes = watched(
    a_job(
        *(begins(rank, here=2, host="a") for rank in (0, 1)),
        world_size=4,
        launchers={"a": launcher(command=TWO_NODES), "b": launcher(2000, host="b", command=TWO_NODES)},
    ),
    "_invoke_run",
    "_exit_barrier",
)
STUCK: dict[str, tuple[HangJob, tuple[int, ...]]] = {
    "torchrun runs on without it": (left(), (1,)),
    "a key of the store is waited for": (left(operation="barrier", kind="store wait"), (1,)),
    "its parent has not collected it": (
        a_job(begins(0), zombie(1), begins(2), launchers={}, master_address="127.0.0.1"),
        (1,),
    ),
    "a node has ended, and waits for the other one": (over_nodes, (2, 3)),
}
INNOCENT: dict[str, HangJob] = {
    "it was started this moment": left(age=3.0),
    "torchrun is ending the others": watched(left(operation="barrier", kind="store wait"), "_stop_workers"),
    "torchrun looks once a minute": left(
        operation="barrier", kind="store wait", launchers=torchrun("--monitor-interval=60")
    ),
    "the status of another user's process, which reads as 0": a_job(
        hidden(begins(0)),
        hidden(begins(2)),
        zombie(1),
        launchers={},
    ),
    "all are there": watched(a_job(*map(begins, range(3)), launchers=torchrun()), "_invoke_run"),
}  # fmt: skip


@pytest.mark.parametrize("name", STUCK)
def test_a_rank_that_left_before_the_start_is_named(name: str) -> None:
    job, ranks = STUCK[name]
    report = reported(job)
    assert report.state == "hung"
    assert sure(job)[0] == (LEFT, ranks)
    assert "status 0" in report.causes[0].summary
    assert report.causes[0].where is not None and report.causes[0].where.line == 20


@pytest.mark.parametrize("name", INNOCENT)
def test_what_looks_alike_is_not_named(name: str) -> None:
    assert [each for each in sure(INNOCENT[name]) if each[0] == LEFT] == []


def test_one_that_failed_is_not_said_to_have_left_well() -> None:
    job = a_job(begins(0), zombie(1), zombie(2, 1 << 8), launchers={}, master_address="127.0.0.1")
    assert sure(job)[0] == ("rank-died", (2,))


def test_in_training_it_is_one_of_two() -> None:
    """As one of a launcher that runs on: it had fewer batches, or has decided by itself."""
    job = a_job(waits(0), zombie(1), waits(2), launchers={}, master_address="127.0.0.1")
    assert {each.cause for each in reported(job).causes} >= {LEFT, "uneven-inputs"}


def test_a_status_that_was_not_seen_is_no_good_one() -> None:
    """A rank over InfiniBand raised in the middle of a look, and was told to have run out of data (0.65)."""
    job = a_job(waits(0), ended_meanwhile(1), world_size=2)
    assert not {"uneven-inputs", LEFT} & {cause for cause, _ in sure(job)}
