"""Of the rank that did not come, its own lines: how far it had come, and in what else it waited.

The lines have the form that torch 2.14.1 wrote in the lab (python -m tests.lab.torch_nccl).
"""

from pathlib import Path

import pytest

from tests.test_explain_aborted import C10D, LAUNCHER, asked, end, explained, watchdog


def steps(**last: int) -> str:
    """The lines of each rank up to a step: steps(r0=3, r1=4)."""
    lines = [(step, rank) for rank, most in last.items() for step in range(2, most + 1)]
    return "".join(f"rank {rank[1:]} step {step} begins\n" for step, rank in sorted(lines))


def sums(*ranks: int, number: int = 7) -> str:
    return "".join(watchdog(rank, "ALLREDUCE", "all_reduce", 11, number) for rank in ranks)


ASKED = asked(0, 6, 6) + asked(1, 7, 6) + asked(2, 7, 6)


def test_who_is_a_step_ahead_with_a_collective_less_has_left_one_out(tmp_path: Path) -> None:
    """idle_without_dummy of tests/lab/hangs."""
    first = explained(steps(r0=5, r1=4, r2=4) + sums(1, 2) + ASKED + end(1) + LAUNCHER, tmp_path).causes[0]
    assert (first.cause, first.ranks, first.confidence) == ("rank-divergent-decision", (0,), 0.65)
    assert "step 5 with 6 collectives" in first.summary and "left one out" in first.summary


@pytest.mark.parametrize(
    "own",
    [
        steps(r0=4, r1=4, r2=4),  # it is late in that step
        steps(r0=3, r1=4, r2=4),
        steps(r0=40, r1=4, r2=4),  # a buffer has kept the others' lines
        steps(r0=4, r1=4, r2=4) + "rank 0 step 5 loss 0.5\n",  # a line of another form
        steps(r1=4, r2=4),
        steps(r0=5, r1=4, r2=3),
    ],
)
def test_of_other_lines_nothing_is_concluded(tmp_path: Path, own: str) -> None:
    causes = explained(own + sums(1, 2) + ASKED + end(1) + LAUNCHER, tmp_path).causes
    assert all(cause.confidence < 0.5 for cause in causes)


def test_ranks_of_unlike_steps_at_one_number_have_made_unlike_many(tmp_path: Path) -> None:
    """Two make one more in each step than the third: at number 7 it is a step further on."""
    waited = sums(0, 2) + watchdog(1, "ALLREDUCE", "all_reduce", 30)
    first = explained(steps(r0=4, r1=5, r2=4) + waited + end(1) + LAUNCHER, tmp_path).causes[0]
    assert (first.cause, first.ranks) == ("rank-divergent-decision", (1,))


def traceback(rank: int, code: str, raised: str, *inner: str) -> str:
    lines = ("Traceback (most recent call last):", '  File "/home/mara/train.py", line 27, in main', f"    {code}")
    return "".join(f"[rank{rank}]: {line}\n" for line in (*lines, *inner, raised))


GONE = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer "
    "[10.0.0.2]:33973."
)


@pytest.mark.parametrize(
    ("rank", "function", "cause"),
    [(1, "all_reduce", "rank-divergent-decision"), (0, "barrier", "rank0-only-collective")],
)
def test_who_ends_out_of_gloo_waited_there_while_the_others_waited_in_nccl(
    tmp_path: Path, rank: int, function: str, cause: str
) -> None:
    """waits_on_cpu of tests/lab/hangs."""
    others = [other for other in range(3) if other != rank]
    own = traceback(
        rank, f"dist.{function}(group=beside)", GONE, f'  File "{C10D}", line 3913, in {function}', "    work.wait()"
    )
    was_asked = asked(rank, 6, 6) + "".join(asked(other, 7, 6) for other in others)
    text = steps(r0=4, r1=4, r2=4) + sums(*others) + was_asked + end(others[0]) + own + LAUNCHER
    first = explained(text, tmp_path).causes[0]
    assert (first.cause, first.ranks, first.confidence) == (cause, (rank,), 0.65)
    assert "does not go over NCCL" in first.summary


NO_KEY = "torch.distributed.DistStoreError: wait timeout after 100000ms, keys: /default_pg/0//best_7"


def test_a_key_that_nobody_is_left_to_set(tmp_path: Path) -> None:
    """store_key_of_another_name of tests/lab/hangs."""
    own = traceback(0, "name = store.get(key)", NO_KEY)
    text = steps(r0=4, r1=4, r2=4) + sums(1, 2) + ASKED + own + LAUNCHER
    first = explained(text, tmp_path).causes[0]
    assert (first.cause, first.ranks, first.confidence) == ("store-key-missing", (0,), 0.85)
    assert "/default_pg/0//best_7" in first.summary
    alone = explained(steps(r0=4, r1=4, r2=4) + sums(1) + ASKED + own + LAUNCHER, tmp_path).causes[0]
    assert alone.confidence < 0.85, "rank 2 may have been on its way to set it"
    of_torch = traceback(0, "group = dist.new_group()", NO_KEY, f'  File "{C10D}", line 5400, in new_group', "    x()")
    for cause in explained(steps(r0=4, r1=4, r2=4) + sums(1, 2) + ASKED + of_torch + LAUNCHER, tmp_path).causes:
        assert cause.cause != "store-key-missing"


def test_who_gets_on_alone_makes_no_collective_any_more(tmp_path: Path) -> None:
    """It writes its steps while the others wait, and behind their time-out: they have not got on with it."""
    before = steps(r0=90, r1=6, r2=6)
    alone = "".join(f"rank 0 step {step} begins\n" for step in range(91, 150))
    answer = explained(before + sums(1, 2) + ASKED + alone + end(1) + alone + LAUNCHER, tmp_path)
    assert (answer.causes[0].cause, answer.causes[0].ranks) == ("rank-divergent-decision", (0,))
