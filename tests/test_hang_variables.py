"""What the variables of a program tell (read/job/tensors.py, hang/variables.py, causes/collective_variables.py)."""

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from msgspec.structs import replace

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.job import Rank
from gpudoctor.hang.report import HangCause
from gpudoctor.hang.variables import levels_of, rounds_apart, unlike
from gpudoctor.read.job import stacks
from gpudoctor.read.job.source import context
from gpudoctor.read.job.tensors import sizes_in
from gpudoctor.snapshot.evidence import Enclosing, Frame, FrameVariables, SourceContext
from gpudoctor.snapshot.ras import Ras, RasCommunicator, RasRank
from tests.hang_jobs import PROGRAM, a_job, is_in, source
from tests.lab.requirements import require

HOLDS = """
    import sys, time, torch
    def work(samples, ready=True, rate=0.5, token="hf_secret", nothing=None):
        sizes, by_owner, text, ids = [8, -4], {0: 0.9, 1: (1, 2)}, {"key": 1}, ["a", 1]
        many, half, name = list(range(100)), torch.bfloat16, "bfloat16"
        logits = torch.ones(512, 1024)
        turned = logits.to(torch.bfloat16).t()
        for step in range(10):
            if step == 4:
                print("ready", flush=True)
                time.sleep(600)
    work(21)
"""
LIBRARY = {"libcuda.so.580.95.05": "/usr/lib/libcuda.so.580.95.05"}
SPIN: dict[str, Any] = {"state": "R", "waits_in": "", "cpu": (3.0, 5.5), "moved": True, "libraries": LIBRARY}
LOOP = [("for", 20, "step in range(1000)"), ("function", 10, "main")]
DDP = [("backward", 30, ""), ("all_reduce", 50, "step % 4 == 3")]


@pytest.mark.skipif(sys.platform != "linux", reason="as py-spy reads processes there")
def test_numbers_and_tensors_are_read_and_of_texts_some_bits_that_are_no_secret() -> None:
    pytest.importorskip("torch")
    require(stacks.find_program(), "no py-spy")
    command = [sys.executable, "-c", textwrap.dedent(HOLDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
            read = stacks.dump([process.pid], timeout=200.0, variables=True)[process.pid]
            without = stacks.dump([process.pid], timeout=200.0)[process.pid]
        finally:
            process.kill()
    (held,) = [own for own in read.variables if own.frame.function == "work"]
    assert held.values == {
        "samples": "21",
        "ready": "True",
        "rate": "0.5",
        "sizes": "[8, -4]",
        "by_owner": "{0: 0.9, 1: (1, 2)}",
        "half": "bfloat16",
        "name": "text 69b",
        "logits": "float32[512, 1024]",
        "turned": "bfloat16[1024, 512]",
        "step": "4",
    }
    assert without.variables == ()


def a_tensor(sizes: tuple[int, ...], elements: int, kind: int, before: int = 7) -> tuple[int, ...]:
    """The words of one: its sizes, strides, offset, number of elements, and type beside other bits."""
    own = (*sizes, *[0] * (5 - len(sizes)))
    return (*[0] * before, len(sizes), *own, 1, 1, 1, 1, 1, 0, elements, (77 << 16) | kind, *[5] * 11)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (a_tensor((512, 1024), 524288, 6), "float32[512, 1024]"),
        (a_tensor((8,), 8, 15, before=9), "bfloat16[8]"),
        (a_tensor((0, 3), 0, 4), "int64[0, 3]"),
        (a_tensor((8,), 9, 6), ""),  # of other sizes than elements
        (a_tensor((8,), 8, 600), ""),
        ((), ""),
        (tuple(range(40)), ""),
    ],
)
def test_a_tensor_is_known_by_its_number_of_elements(words: tuple[int, ...], text: str) -> None:
    assert sizes_in(words) == text


def holds(rank: int, at: int, context: SourceContext, **values: object) -> Rank:
    """A rank that waits for its GPU at a line of `main`, and what it holds there."""
    held = FrameVariables(frame=Frame("main", PROGRAM, at), values={name: str(value) for name, value in values.items()})
    return is_in(rank, "cuda sync", "item", at=at, sources=(context,), variables=(held,), **SPIN)


def first_of(*members: Rank, counts: tuple[int, ...]) -> HangCause:
    ranks = tuple(RasRank(rank=rank, counts={"AllReduce": own}) for rank, own in enumerate(counts))
    poll = Ras(at=0.0, source="x", communicators=(RasCommunicator(id="1", size=len(ranks), ranks=ranks),))
    return conclude_job(a_job(*members, nodes={"a": {"ras": (poll, poll)}})).causes[0]


def lines(*at: int, calls: Any = DDP, inside: Any = LOOP) -> list[SourceContext]:
    return [source(line, inside=inside, calls=calls) for line in at]


@pytest.mark.parametrize(
    ("steps", "counts", "cause", "ranks"),
    [
        ((3, 4, 4), (5, 5, 5), "rank0-only-collective", (0,)),
        ((4, 3, 4), (5, 5, 5), "rank-divergent-decision", (1,)),
        ((4, 4, 5), (6, 6, 6), "rank-divergent-decision", (2,)),
    ],
)
def test_a_rank_a_round_behind_that_has_launched_as_many_has_made_one_more(
    steps: tuple[int, ...], counts: tuple[int, ...], cause: str, ranks: tuple[int, ...]
) -> None:
    behind, ahead = lines(51, 40)
    low = min(steps)
    members = [
        holds(rank, 51 if step == low else 40, behind if step == low else ahead, step=step)
        for rank, step in enumerate(steps)
    ]
    first = first_of(*members, counts=counts)
    assert (first.cause, first.ranks) == (cause, ranks)
    assert first.confidence >= 0.5


@pytest.mark.parametrize(
    ("inner", "cause"),
    [("batch in loader", "uneven-inputs"), ("callback in self.callbacks", "rank-divergent-decision")],
)
def test_a_rank_that_is_in_the_next_epoch_had_fewer_batches(inner: str, cause: str) -> None:
    loops = [("for", 25, inner), ("for", 20, "epoch in range(9)"), ("function", 10, "main")]
    behind, ahead = lines(51, 40, inside=loops)
    members = [
        holds(rank, 40 if rank == 1 else 51, ahead if rank == 1 else behind, epoch=rank % 2) for rank in (0, 1, 2)
    ]
    first = first_of(*members, counts=(5, 5, 5))
    assert (first.cause, first.ranks) == (cause, (1,))


def test_who_is_a_round_behind_is_not_past_a_backward_further_up() -> None:
    """waits_on_cpu of tests/lab/hangs: it has not come to the backward of this round, with all its gradients."""
    up, down = lines(30, 52, calls=[("backward", 30, "")])
    held = [
        FrameVariables(frame=Frame("main", PROGRAM, at), values={"step": step}) for at, step in ((30, "5"), (52, "4"))
    ]
    own: dict[str, Any] = {"sources": (up,), "variables": tuple(held[:1])}
    others = [is_in(rank, "backward", "backward", at=30, **own) for rank in (0, 2)]
    for variables, sure in ((tuple(held[1:]), False), ((), True)):
        rank = is_in(1, "collective", "all_reduce", at=52, sources=(down,), variables=variables)
        causes = conclude_job(a_job(others[0], rank, others[1])).causes
        assert (causes[0].cause == "unused-parameters" and causes[0].confidence >= 0.5) is sure


@pytest.mark.parametrize("odd", [2, 1])
def test_of_neighbours_in_several_rounds_who_is_furthest_behind_holds_the_fault(odd: int) -> None:
    """halo_without_border: each waits for the next one, and is a round ahead of it."""
    (here,) = lines(40, calls=())
    members = [
        holds(rank, 40, here, step=4 + (rank - odd) % 3, walls_from=9 if rank == odd else 4) for rank in range(3)
    ]
    first = first_of(*members, counts=(5, 5, 5))
    assert (first.cause, first.ranks) == ("rank-divergent-decision", (odd,))


def test_who_is_ahead_and_has_launched_more_may_have_made_it_too() -> None:
    behind, ahead = lines(51, 40)
    members = [holds(0, 51, behind, step=3), holds(1, 40, ahead, step=4), holds(2, 40, ahead, step=4)]
    assert first_of(*members, counts=(5, 6, 6)).confidence < 0.5


def test_without_a_collective_in_every_round_being_ahead_says_nothing() -> None:
    """Gradients that are kept for some rounds: rank 0 prints its loss in each, the others wait in every fourth."""
    behind, ahead = lines(51, 40, calls=[("all_reduce", 30, "step % 4 == 3")])
    members = [holds(0, 51, behind, step=5), holds(1, 40, ahead, step=7), holds(2, 40, ahead, step=7)]
    assert first_of(*members, counts=(1, 1, 1)).confidence < 0.5


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("samples", (24, 21, 24), True),
        ("samples", (24, 21, 22), False),  # all of their own
        ("samples", (24, 24, 21), True),
        ("samples", (21, 24, 24), False),  # rank 0 alone: it may be meant
        ("is_last", ("False", "False", "True"), False),
        ("stage", (0, 1, 0), False),
        ("step", (4, 5, 4), False),
        ("overloaded", ("False", "True", "False"), True),
    ],
)
def test_a_variable_that_one_holds_otherwise_is_told_where_that_one_is_elsewhere(
    name: str, values: tuple[object, ...], told: bool
) -> None:
    odd = next((rank for rank, value in enumerate(values) if values.count(value) == 1), 1)
    here, there = lines(40, 45, calls=())
    members = [
        holds(rank, 45 if rank == odd else 40, there if rank == odd else here, **{name: value})
        for rank, value in enumerate(values)
    ]
    first = first_of(*members, counts=(5, 5, 5))
    assert (name in first.summary) is told
    if told:
        assert (first.cause, first.ranks, first.confidence) == ("rank-divergent-decision", (odd,), 0.65)


def test_ranks_that_are_alike_in_all_else_are_not_told_apart_by_a_variable() -> None:
    (here,) = lines(40)
    members = [holds(rank, 40, here, samples=24 if rank != 1 else 21, step=3) for rank in range(3)]
    assert first_of(*members, counts=(5, 5, 5)).confidence < 0.5


def gathers(rank: int, **values: object) -> Rank:
    call = Enclosing("all_gather_into_tensor", 39, "", gives=("everyone", "logits"))
    context = replace(source(40, inside=LOOP), calls=(call,))
    return holds(rank, 40, context, step=3, **values)


def test_what_is_given_to_one_collective_in_unlike_sizes_is_a_mismatch() -> None:
    own = [gathers(rank, logits=f"float32[{8 if rank != 2 else 5}, 4]") for rank in range(3)]
    first = first_of(*own, counts=(5, 5, 5))
    assert (first.cause, first.ranks, first.confidence) == ("shape-mismatch", (2,), 0.65)
    types = [gathers(rank, logits=f"{'float32' if rank != 1 else 'bfloat16'}[8, 4]") for rank in range(3)]
    assert first_of(*types, counts=(5, 5, 5)).ranks == (1,)


def test_ranks_that_name_unlike_roots_have_parted() -> None:
    call = Enclosing("gather", 39, "", gives=("predictions", "writer"), root=("writer",))
    context = replace(source(40, inside=LOOP), calls=(call,))
    for roots, odd in (((0, 1, 0), (1,)), ((0, 1), (1,)), ((2, 2, 1), (2,))):
        own = [holds(rank, 40, context, writer=root) for rank, root in enumerate(roots)]
        first = first_of(*own, counts=(5,) * len(own))
        assert (first.cause, first.ranks, first.confidence) == ("rank-divergent-decision", odd, 0.65)
    alike = [holds(rank, 40, context, writer=0, other=rank) for rank in range(3)]
    assert first_of(*alike, counts=(5, 5, 5)).confidence < 0.5


def test_tensors_that_no_collective_was_given_may_have_any_size() -> None:
    own = [gathers(rank, batch=f"float32[{8 + rank}, 4]", logits="float32[8, 4]") for rank in range(3)]
    report = conclude_job(a_job(*own))
    assert all(cause.cause != "shape-mismatch" or cause.confidence < 0.5 for cause in report.causes)


def test_only_functions_that_all_are_in_are_compared() -> None:
    here, there = lines(40, 45, calls=())
    members = [holds(0, 40, here, step=3, samples=1), holds(1, 45, there, step=4, samples=1)]
    assert len(levels_of(members)) == 1
    apart = rounds_apart(members)
    assert apart is not None
    assert (apart.counter, apart.rounds, [rank.rank for rank in apart.ahead]) == ("step", (3, 4), [1])
    assert list(unlike(members)) == []
    held = FrameVariables(frame=Frame("other", PROGRAM, 9), values={"step": "4"})
    elsewhere = is_in(2, "cuda sync", "item", at=9, function="other", variables=(held,), **SPIN)
    assert rounds_apart([*members, elsewhere]) is None


def test_what_is_given_through_a_function_of_the_programs() -> None:
    """files_as_walked of tests/lab/hangs: `exchange(hidden)`, whose own frame is gone."""
    call = Enclosing("all_to_all_single", 39, "", gives=("hidden",))
    context = replace(source(40, inside=LOOP), leads_to=(call,))
    own = [holds(rank, 40, context, step=3, hidden=f"float32[{8 if rank != 1 else 5}, 4]") for rank in range(3)]
    first = first_of(*own, counts=(5, 5, 5))
    assert (first.cause, first.ranks, first.confidence) == ("shape-mismatch", (1,), 0.65)


def test_a_root_that_is_given_through_one() -> None:
    call = Enclosing("broadcast", 39, "", gives=("weights", "source"), root=("source",))
    context = replace(source(40, inside=LOOP), leads_to=(call,))
    own = [holds(rank, 40, context, weights="float32[8]", source=int(rank == 2)) for rank in range(3)]
    first = first_of(*own, counts=(5, 5, 5))
    assert (first.cause, first.ranks, first.confidence) == ("rank-divergent-decision", (2,), 0.65)


def test_a_root_that_each_computes_of_what_one_holds_otherwise() -> None:
    """best_of_each of tests/lab/hangs: `take_over(weights, best(scores))`."""
    call = Enclosing("broadcast", 39, "", gives=("weights",), root=("scores",))
    context = replace(source(40, inside=LOOP), leads_to=(call,))
    for values, culprits in ((("{0: 0.9}", "{0: 0.9}", "{0: 0.5}"), (2,)), (("{0: 0.9}", "{0: 0.8}", "{0: 0.5}"), ())):
        own = [holds(rank, 40, context, weights="float32[8]", scores=scores) for rank, scores in enumerate(values)]
        first = first_of(*own, counts=(5, 5, 5))
        assert (first.cause == "rank-divergent-decision" and first.ranks == culprits) is bool(culprits)
        assert (first.confidence >= 0.5) is bool(culprits)


@pytest.mark.parametrize(
    ("call", "root"),
    [
        ("dist.broadcast(weights, src=best(scores))", ("scores",)),
        ("dist.reduce(weights, first + 1)", ("first",)),
        ("dist.gather(weights, rows, dst=writer)", ("writer",)),
        ("dist.gather(weights, rows)", ()),
        ("dist.broadcast(weights, first, group)", ()),
        ("dist.broadcast(weights, src=first, group=own)", ()),
        ("dist.all_reduce(weights)", ()),
        ("take_over(weights, best(scores))", ("scores",)),
        ("take_over(source=first, weights=weights)", ("first",)),
    ],
)
def test_from_what_a_call_takes_its_root(call: str, root: tuple[str, ...]) -> None:
    text = f"def take_over(weights, source):\n    dist.broadcast(weights, src=source)\n\ndef train():\n    {call}\n"
    found = context(Frame("train", PROGRAM, 5), lambda _: text.encode())
    assert found is not None
    assert [each.root for each in (*found.calls, *found.leads_to)] == [root]


def test_who_is_let_in_by_a_local_rank() -> None:
    """Of two nodes with two ranks each, the first of each."""
    context = source(40, inside=LOOP, calls=[("all_reduce", 30, ""), ("barrier", 38, "local_rank == 0")])
    members = [replace(holds(rank, 40, context, step=3), local_rank=rank % 2) for rank in range(4)]
    first = first_of(*members, counts=(6, 5, 6, 5))
    assert (first.cause, first.ranks) == ("rank0-only-collective", (0, 2))
