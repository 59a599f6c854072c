"""Ranks that are past a loop in which others wait: what the loop goes over, what leads out of it, and what variables
say to that; and objects that only the first rank has."""

import ast

import pytest
from msgspec import structs

from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.loops import ends, holds, is_of_data
from gpudoctor.hang.rank_conditions import admits
from gpudoctor.knowledge.places import Place
from gpudoctor.read.job import by_rank
from gpudoctor.read.job.source import context
from gpudoctor.snapshot.evidence import Enclosing, Frame, FrameVariables, SourceContext
from gpudoctor.sure import BEST
from tests.hang_jobs import PROGRAM, TORCH, a_job, member
from tests.test_hang_training import first, reported

LIBRARY = Frame("all_reduce", f"{TORCH}/distributed/distributed_c10d.py", 100)


def around(text: str, line: int, function: str = "main") -> SourceContext:
    made = context(Frame(function, PROGRAM, line), {PROGRAM: text.encode()}.__getitem__)
    assert made is not None
    return made


def at(number: int, text: str, *lines: tuple[str, int], values: dict[str, str] | None = None) -> Rank:
    """A rank that waits in a collective at the first of these lines, called from the others."""
    frames = tuple(Frame(function, PROGRAM, line) for function, line in lines)
    sources = tuple(around(text, frame.line, frame.function) for frame in frames)
    held = (FrameVariables(frame=frames[-1], values=values),) if values else ()
    return member(number, Place("collective", "barrier", LIBRARY, frames[0], frames), sources=sources, variables=held)


def two_and_one(text: str, stays: int, left: int, values: dict[str, str] | None = None) -> HangJob:
    """Two ranks at a line of `main`, and one that is further down."""
    return a_job(at(0, text, ("main", stays)), at(1, text, ("main", left), values=values), at(2, text, ("main", stays)))


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("stop", True),
        ("not stop", False),
        ("kl > 1.5 * limit", True),
        ("kl > limit and unknown", None),
        ("stop or unknown", True),
        ("kl is None", None),
        ("step < 3 - 1", False),
        ("stopper.step(kl)", None),
        ("kl >", None),
    ],
)
def test_what_variables_say_to_a_condition(condition: str, told: bool | None) -> None:
    assert holds(condition, {"stop": "True", "kl": "0.2", "limit": "0.1", "step": "3", "rows": "float32[4]"}) is told


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("for", "step, batch in enumerate(loader)", "with its data"),
        ("for", "x in range(100)", "alike"),
        ("for", "parameter in model.parameters()", "by what the rank holds"),
        ("for", "name, value in values.items()", "by what the rank holds"),
        ("for", "callback in self.callbacks", "by what the rank holds"),
        ("for", "step in self.iter(steps)", "unknown"),
        ("while", "True", "unknown"),
        ("while", "step < max_steps", "unknown"),
        ("while", "time.monotonic() < deadline", "by a decision"),
        ("while", "not done", "by a decision"),
        ("while", "(batch := next(rows, None)) is not None", "with its data"),
    ],
)
def test_how_a_loop_ends(kind: str, text: str, told: str) -> None:
    assert ends(Enclosing(kind, 3, text)) == told


def test_what_leaves_a_loop_for_want_of_data() -> None:
    for text, told in (("batch is None", True), ("not rows.batches", True), ("except StopIteration", True)):
        assert is_of_data(Enclosing("break", 3, text)) is told
    for text in ("loss is None", "stop", "batch_loss > limit"):
        assert not is_of_data(Enclosing("break", 3, text))


STOPS = (
    "def main():\n    for batch in loader:\n        if kl > limit:\n            break\n        dist.barrier()\n"
    "    dist.barrier()\n"
)


def test_variables_tell_which_way_out_was_taken() -> None:
    cause = first(two_and_one(STOPS, 5, 6, {"kl": "0.4", "limit": "0.1"}))
    assert (cause.cause, cause.ranks, cause.confidence) == ("rank-divergent-decision", (1,), 0.85)
    cause = first(two_and_one(STOPS, 5, 6, {"kl": "0.0", "limit": "0.1"}))
    assert (cause.cause, cause.ranks, cause.confidence) == ("uneven-inputs", (1,), 0.85)
    cause = first(two_and_one(STOPS, 5, 6))  # the data may have ended as well
    assert (cause.cause, cause.ranks, cause.confidence) == ("rank-divergent-decision", (1,), BEST)
    assert "What else may have led them apart: `for" in cause.confirm


def test_a_break_of_the_loop_further_out() -> None:
    text = (
        "def main():\n    for epoch in range(50):\n        for batch in loader:\n            dist.barrier()\n"
        "        if stopper.stops():\n            break\n    dist.barrier()\n"
    )
    cause = first(two_and_one(text, 4, 7))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,))
    assert cause.where is not None and cause.where.line == 6


@pytest.mark.parametrize(
    ("loop", "told"),
    [
        ("for name, value in values.items():", "rank-divergent-decision"),
        ("while clock.left() > 0:", "rank-divergent-decision"),
        ("for batch in loader:", "uneven-inputs"),
    ],
)
def test_what_the_loop_goes_over(loop: str, told: str) -> None:
    text = f"def main():\n    {loop}\n        dist.barrier()\n    dist.barrier()\n"
    cause = first(two_and_one(text, 3, 4))
    assert (cause.cause, cause.ranks) == (told, (1,))


def test_what_only_one_finds_in_a_round_that_others_are_past() -> None:
    """Loops that have as many rounds on all ranks are left by nobody early: the others are a round ahead."""
    text = (
        "def main():\n    for epoch in range(50):\n        for _ in range(3):\n            dist.barrier()\n"
        "        if rate < before:\n            dist.barrier()\n"
    )
    cause = first(two_and_one(text, 4, 6))
    assert (cause.cause, cause.ranks, cause.confidence) == ("rank-divergent-decision", (1,), 0.85)
    assert "under `if rate < before` in line 5" in cause.summary


def test_continue_behind_a_line_does_not_pass_it_by() -> None:
    text = (
        "def main():\n    for batch in loader:\n        dist.barrier()\n        if batch.bad:\n            continue\n"
        "    dist.barrier()\n"
    )
    assert first(two_and_one(text, 3, 6)).cause == "uneven-inputs"
    before = (
        "def main():\n    for batch in loader:\n        if batch.bad:\n            continue\n        dist.barrier()\n"
        "    dist.barrier()\n"
    )
    assert first(two_and_one(before, 5, 6)).cause == "rank-divergent-decision"


def test_where_ranks_part_is_said_without_a_cause() -> None:
    text = "def main():\n    while True:\n        dist.all_reduce(x)\n        look(x)\n        dist.barrier()\n"
    one, other, third = at(0, text, ("main", 3)), at(1, text, ("main", 5)), at(2, text, ("main", 3))
    report = reported(a_job(structs.replace(one, place=one.place._replace(operation="all_reduce")), other, third))
    assert not report.causes or report.causes[0].confidence < 0.5
    if report.causes:
        assert "have gone different ways in main of train.py: lines 3 and 5" in report.undecided


MADE = "class A:\n    def f(self):\n        self.w = W() if rank == 0 else None"
LATER = "class A:\n    def f(self):\n        self.w = None\n        if rank == 0:\n            self.w = W()"
GIVEN = "class Bar:\n    def __init__(self, on):\n        self.on = on\n\nbar = Bar(on=rank == 0)"


@pytest.mark.parametrize(
    ("text", "condition", "asks"),
    [
        (MADE, "self.w is not None", "rank == 0"),
        (MADE, "self.w is None", "not rank == 0"),
        (LATER, "self.w", "rank == 0"),
        (GIVEN, "bar.on", "rank == 0"),
        ("def make():\n    return W() if rank == 0 else None\n\nw = make()", "w is not None", "rank == 0"),
        ("w = W() if rank == 0 else V()", "w is not None", ""),
        ("rank = dist.get_rank()", "rank is not None", ""),
        ("x = 1", "lora_rank > 0", ""),
        ("x = 1", "local_rank > 0", "local_rank > 0"),
    ],
)
def test_objects_of_the_first_rank_only(text: str, condition: str, asks: str) -> None:
    tree = ast.parse(text)
    assert by_rank.of(tree).asks(ast.parse(condition, mode="eval").body) == asks


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("dp_rank == 0", "rank_in_group == 0"),
        ("mesh.get_local_rank('tp') == 0", "rank_in_group == 0"),
        ("parallel.get_tensor_model_parallel_rank() == 0", "rank_in_group == 0"),
        ("self.ring_attn_rank == 0", "rank_in_group == 0"),
        ("global_rank == 0", "global_rank == 0"),
    ],
)
def test_a_number_in_a_group_is_not_the_rank(name: str, asks: str) -> None:
    condition = ast.parse(name, mode="eval").body
    assert by_rank.of(ast.parse("x = 1")).asks(condition) == asks
    told = admits(Enclosing("if", 3, name), 0)
    assert told is (True if "global" in name else None)


def test_conditions_that_compute_with_the_rank() -> None:
    for text, lets_in in (("rank % 2 == 0", [0, 2]), ("rank // 2 == 1", [2, 3]), ("rank % 2", [1, 3])):
        assert [rank for rank in range(4) if admits(Enclosing("if", 3, text), rank)] == lets_in


GROUPED = (
    "def save(weight, dp):\n    if dp.dp_rank == 0:\n        write(weight)\n        dist.barrier()\n\n"
    "def main():\n    while True:\n        dist.all_reduce(weight)\n        save(weight, dp)\n"
)


def test_the_first_of_each_group_is_who_stands_there() -> None:
    """Ranks 0 and 1 are the first of theirs, and rank 1 is no first of the world."""
    inside = [at(rank, GROUPED, ("save", 4), ("main", 9)) for rank in (0, 1)]
    cause = first(a_job(*inside, *(at(rank, GROUPED, ("main", 8)) for rank in (2, 3))))
    assert (cause.cause, cause.ranks) == ("rank0-only-collective", (0, 1))
    assert "which only ranks 0-1 reach" in cause.summary


ROUNDS = (
    "def main():\n    for step in range(steps_of(loader)):\n        if empty(step):\n            continue\n"
    "        dist.barrier()\n    dist.barrier()\n"
)


@pytest.mark.parametrize(("now", "last", "told"), [(5, 7, "rank-divergent-decision"), (5, 4, "uneven-inputs")])
def test_how_often_a_loop_was_gone_round_tells_whether_it_was_left_early(now: int, last: int, told: str) -> None:
    one, other, third = (
        at(rank, ROUNDS, ("main", 6 if rank == 1 else 5), values={"step": str(last if rank == 1 else now)})
        for rank in range(3)
    )
    assert (first(a_job(one, other, third)).cause, first(a_job(one, other, third)).ranks) == (told, (1,))


def test_a_loop_over_what_need_not_be_data_is_no_proof_of_fewer_batches() -> None:
    text = "def main():\n    for epoch in counter:\n        dist.barrier()\n    dist.barrier()\n"
    assert first(two_and_one(text, 3, 4)).confidence < 0.5


def test_what_the_others_have_found_needless_in_as_many_rounds() -> None:
    text = (
        "def main():\n    for epoch in range(4):\n        if loss < best:\n            dist.barrier()\n"
        "    dist.barrier()\n"
    )
    cause = first(two_and_one(text, 4, 5))
    assert (cause.cause, cause.ranks, cause.confidence) == ("rank-divergent-decision", (1,), 0.65)
    assert "under `if loss < best` in line 3" in cause.summary


def test_a_result_that_one_rank_remembers() -> None:
    text = (
        "@functools.lru_cache(maxsize=None)\ndef tokens_in(shard):\n    dist.all_reduce(count)\n    return count\n\n"
        "def main():\n    while True:\n        total = tokens_in(shard)\n        dist.all_gather(a, b)\n"
    )
    inside = [at(rank, text, ("tokens_in", 3), ("main", 8)) for rank in (0, 2)]
    cause = first(a_job(*inside, at(1, text, ("main", 9))))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,))
    assert "whose result is remembered (`@functools.lru_cache`, line 1)" in cause.summary


def in_a_round(text: str, number: int, line: int, operation: str, **values: str) -> Rank:
    rank = at(number, text, ("main", line), values=values)
    place = rank.place._replace(operation=operation)
    return structs.replace(rank, place=place, first_place=place)


def test_who_is_in_the_same_round_has_not_gone_round() -> None:
    text = (
        "def main():\n    for step in range(1000):\n        if bad(step):\n            continue\n"
        "        total(x)\n        look(x)\n        dist.barrier()\n"
    )
    for rounds, shown in (("5", False), ("6", True)):
        one, third = (in_a_round(text, rank, 5, "all_reduce", step="5") for rank in (0, 2))
        cause = first(a_job(one, in_a_round(text, 1, 7, "barrier", step=rounds), third))
        assert (cause.confidence > 0.5) is shown


def test_a_condition_that_both_have_found_alike_is_not_why() -> None:
    text = (
        "def main():\n    for step in range(1000):\n        total(x)\n        if step % every == 4:\n"
        "            dist.barrier()\n"
    )
    for every, shown in (("5", False), ("7", True)):
        one, third = (in_a_round(text, rank, 3, "all_reduce", step="9", every="5") for rank in (0, 2))
        cause = first(a_job(one, in_a_round(text, 1, 5, "barrier", step="9", every=every), third))
        assert (cause.confidence > 0.5) is shown
