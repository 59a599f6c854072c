"""A conclusion is as sure as what else may have led ranks apart is excluded; and who is gone, as all was read."""

import pytest
from msgspec import structs

from gpudoctor.hang.causes.ranks_gone import died_ranks
from gpudoctor.snapshot.evidence import Unread
from gpudoctor.sure import BEST, LIKELY, PROVED
from tests.hang_jobs import a_job, waits
from tests.test_hang_loops import at, two_and_one
from tests.test_hang_training import first, reported

LOOP = (
    "def main():\n    for {each}:\n        if odd(row):\n            continue\n        dist.barrier()\n"
    "    dist.all_reduce(x)\n"
)


@pytest.mark.parametrize(("each", "sure"), [("step in range(1000)", 0.85), ("row in loader", BEST)])
def test_a_way_past_a_line_beside_data_that_may_have_ended(each: str, sure: float) -> None:
    cause = first(two_and_one(LOOP.format(each=each), 5, 6))
    assert (cause.cause, cause.confidence) == ("rank-divergent-decision", sure)
    assert ("What else may have led them apart: `for row in loader` in line 2" in cause.confirm) is (sure == BEST)


def test_two_ways_to_one_cause_are_both_told() -> None:
    text = LOOP.format(each="step in range(1000)").replace(
        "        dist", "        if late():\n            continue\n        dist"
    )
    cause = first(two_and_one(text, 7, 8))
    assert cause.confidence >= LIKELY
    assert "in line 3" in cause.summary + cause.confirm or "in line 4" in cause.summary + cause.confirm
    assert "late()" in cause.summary + cause.confirm


def test_a_loop_that_is_a_round_ahead_is_not_left() -> None:
    """Who waits below the inner loop is in the round before: the others have come past what it waits in."""
    text = (
        "def main():\n    for epoch in range(9):\n        for row in rows:\n            dist.barrier()\n"
        "        keep(epoch)\ndef keep(epoch):\n    if worse():\n        return\n    dist.all_reduce(x)\n"
    )
    ahead = [at(number, text, ("main", 4), values={"epoch": "4"}) for number in (0, 2)]
    behind = at(1, text, ("keep", 9), ("main", 5), values={"epoch": "3"})
    cause = first(a_job(ahead[0], behind, ahead[1]))
    assert (cause.cause, cause.where and cause.where.line) == ("rank-divergent-decision", 8)


@pytest.mark.parametrize(("what", "sure"), [("kernel log", PROVED), ("processes of mara", BEST)])
def test_who_is_gone_where_processes_were_not_read(what: str, sure: float) -> None:
    job = a_job(waits(0, environment={"LOCAL_WORLD_SIZE": "2"}), missing=(1,), launchers={})
    nodes = tuple(structs.replace(node, unread=(Unread(what, "it took longer than 3 s"),)) for node in job.nodes)
    cause = next(died_ranks(structs.replace(job, nodes=nodes)))
    assert (cause.cause, cause.ranks, cause.confidence) == ("rank-died", (1,), sure)


@pytest.mark.parametrize(("condition", "sure"), [("self.writer", BEST), ("loss < self.best", 0.85)])
def test_what_only_the_first_rank_finds_so_may_ask_for_it(condition: str, sure: float) -> None:
    text = (
        f"def main():\n    for step in range(9):\n        if {condition}:\n            gather(x)\n"
        "        dist.barrier()\n"
    )
    report = reported(a_job(at(0, text, ("main", 4)), at(1, text, ("main", 5)), at(2, text, ("main", 5))))
    assert (report.causes[0].cause, report.causes[0].confidence) == ("rank-divergent-decision", sure)
    assert ("rank0-only-collective" in {cause.cause for cause in report.causes}) is (sure == BEST)


def test_who_is_in_the_next_round_has_come_through_the_loop_of_a_call() -> None:
    text = (
        "def main():\n    while not self.done:\n        dist.all_reduce(flag)\n        evaluate()\n"
        "def evaluate():\n    for row in rows:\n        dist.barrier()\n"
    )
    inside = [at(number, text, ("evaluate", 7), ("main", 4)) for number in (0, 2)]
    cause = first(a_job(inside[0], at(1, text, ("main", 3)), inside[1]))
    assert (cause.cause, cause.ranks) == ("uneven-inputs", (1,))
