"""Ranks that have parted at one line, in calls on groups of some ranks, in functions that remember their result."""

import ast
from typing import Any

import pytest
from msgspec import structs

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.variables import unlike
from gpudoctor.read.job.source_text import groups, text_of
from gpudoctor.snapshot.evidence import Enclosing, Frame, FrameVariables, Recorder
from gpudoctor.sure import LIKELY, POSSIBLE
from tests.hang_jobs import PROGRAM, a_job, is_in, sleeps, source, waits
from tests.test_hang_training import entry, recorded

LOOP = ("for", 20, "step in range(1000)")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("pair = dist.new_group([0, 1])", ["pair=0,1"]),
        ("self.tail = torch.distributed.new_group(ranks=list(range(2, 5)), backend='nccl')", ["tail=2,3,4"]),
        ("group = dist.new_group(members)", []),
        ("group = dist.new_group([rank, 1])", []),
        ("everybody = dist.new_group()", []),
        ("pair = make([0, 1])", []),
    ],
)
def test_groups_whose_members_the_program_writes_down(text: str, names: list[str]) -> None:
    assert list(groups(ast.parse(text))) == names


def in_pair(rank: int, guard: str = "rank < 2") -> Rank:
    """group_of_pair_first of tests/lab/hangs, where it is called."""
    context = structs.replace(
        source(32, inside=[("if", 31, guard), LOOP], text="dist.all_reduce(total, group=pair)"), groups=("pair=0,1",)
    )
    return waits(rank, at=32, sources=(context,))


def in_all(rank: int) -> Rank:
    return waits(rank, at=33, sources=(source(33, inside=[LOOP], text="dist.all_reduce(total)"),))


def test_a_call_on_a_group_all_of_whose_members_come_is_no_call_of_one_rank() -> None:
    causes = conclude_job(a_job(in_pair(0), in_pair(1), in_all(2))).causes
    assert not [cause for cause in causes if cause.cause == "rank0-only-collective"]
    one_of_two = conclude_job(a_job(in_pair(0, "rank == 0"), in_all(1), in_all(2))).causes[0]
    assert (one_of_two.cause, one_of_two.ranks) == ("rank0-only-collective", (0,))


def makes_groups(rank: int, *, healthy: object) -> Rank:
    """A rank in its first call on a group, and what its variables say to who makes one before."""
    at, group = (32, "pair") if rank < 2 else (33, "everybody")
    calls = [("new_group", 12, "healthy or rank < 2"), ("new_group", 13, "")]
    context = source(at, inside=[LOOP], calls=calls, text=f"dist.all_reduce(total, group={group})")
    asked = Enclosing("new_group", 12, "healthy or rank < 2", "rank < 2")
    context = structs.replace(context, calls=(asked, *context.calls[1:]))
    values = {"rank": str(rank), "healthy": str(healthy)} if healthy is not None else {"rank": str(rank)}
    held = FrameVariables(frame=Frame("main", PROGRAM, at), values=values)
    libraries = {"libcuda.so.580.95.05": "/usr/lib/libcuda.so.580.95.05"}
    return waits(rank, at=at, sources=(context,), variables=(held,), libraries=libraries)


@pytest.mark.parametrize(("healthy", "sure"), [(False, True), (True, False), (None, False)])
def test_who_has_left_a_group_out_by_its_own_variables(healthy: object, sure: bool) -> None:
    causes = conclude_job(a_job(*(makes_groups(rank, healthy=healthy) for rank in range(3)))).causes
    told = [cause for cause in causes if "one process group fewer" in cause.summary]
    assert [cause.ranks for cause in told] == [(2,)] * sure


def test_a_function_that_remembers_its_result_is_nobodys_alone() -> None:
    """counted_when_asked of tests/lab/hangs: the others come to it too, where they ask."""
    inner = source(
        19, inside=[("function", 17, "tokens"), ("cache", 16, "@functools.cached_property")], function="tokens"
    )
    outer = source(36, inside=[("if", 35, "rank == 2 and step == 4"), LOOP])
    frames = (Frame("tokens", PROGRAM, 19), Frame("main", PROGRAM, 36), Frame("<module>", PROGRAM, 900))
    rank = waits(2, at=19, function="tokens", sources=(inner, outer))
    rank = structs.replace(rank, place=rank.place._replace(user_frames=frames))
    rank = structs.replace(rank, first_place=rank.place)
    others = (waits(number, at=37, sources=(source(37, inside=[LOOP]),)) for number in (0, 1))
    causes = conclude_job(a_job(*others, rank)).causes
    assert causes[0].ranks == (2,)
    assert not [cause for cause in causes if cause.cause == "rank0-only-collective"]


def gradients(*sizes: int) -> list[Any]:
    """all_reduce at one line, the last one open."""
    states = ["completed"] * (len(sizes) - 1) + ["scheduled"]
    return [
        entry("all_reduce", number, size, at=41, state=state)
        for number, (size, state) in enumerate(zip(sizes, states, strict=True), start=1)
    ]


@pytest.mark.parametrize(
    ("own", "common", "cause"),
    [
        ((512, 256, 512, 256, 512, 512), (512, 256, 512, 256, 512, 256), "rank-divergent-decision"),
        ((512, 256, 512, 256, 512, 384), (512, 256, 512, 256, 512, 256), "shape-mismatch"),
        ((64, 64, 64, 64, 64, 32), (64, 64, 64, 64, 64, 64), "shape-mismatch"),
    ],
)
def test_sizes_that_follow_each_other_at_a_line_are_a_call_apart(own: Any, common: Any, cause: str) -> None:
    """grads_that_are_there of tests/lab/hangs: one parameter has no gradient, and no tensor has another size."""
    context = source(41, inside=[LOOP])
    members = [waits(rank, at=41, sources=(context,)) for rank in range(3)]
    entries = (gradients(*common), gradients(*own), gradients(*common))
    dumps = tuple(Recorder(source="dump", rank=rank, entries=tuple(each)) for rank, each in enumerate(entries))
    job = recorded(*members, entries=entries)
    job = structs.replace(job, evidence=structs.replace(job.evidence, dumps=dumps))
    first = conclude_job(job).causes[0]
    assert (first.cause, first.ranks) == (cause, (1,))


def test_who_tries_again_stands_where_somebody_has_seen_for_how_long() -> None:
    """waits_for_server of tests/lab/hangs."""
    trying = (source(52, inside=[("except", 50, "ConnectionRefusedError"), ("while", 46, "True")]),)

    def first(job: HangJob) -> tuple[str, str, float]:
        report = conclude_job(job)
        return report.state, report.causes[0].summary, report.causes[0].confidence

    job = a_job(waits(0), sleeps(1, moved=True, sources=trying))
    state, summary, sure = first(job)
    assert (state, sure) == ("slow", POSSIBLE)
    assert "tries again and again" in summary
    for quiet, state in ((22.0, "slow"), (130.0, "hung")):
        seen = structs.replace(job, evidence=structs.replace(job.evidence, quiet_seconds=quiet))
        assert first(seen)[::2] == (state, LIKELY)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('print(f"best {int(store.get(name))} of {rank}", flush=True)', "print(f'{int(store.get(name))}', flush=True)"),
        ('print(f"step {step} {loss:.3f}")', 'print("...")'),
    ],
)
def test_what_is_called_between_the_words_of_a_text_stays(text: str, shown: str) -> None:
    assert text_of(ast.parse(text, mode="eval").body) == shown


@pytest.mark.parametrize(("name", "told"), [("per_node", True), ("num_devices", True), ("node", False)])
def test_how_many_there_are_is_no_place(name: str, told: bool) -> None:
    """mesh_of_other_shape of tests/lab/hangs."""
    context = source(41, inside=[LOOP])
    ranks = []
    for rank in range(4):
        held = FrameVariables(frame=Frame("main", PROGRAM, 41), values={name: "4" if rank == 3 else "2"})
        ranks.append(is_in(rank, "cuda sync", "item", at=41, sources=(context,), variables=(held,)))
    assert [one.name for one in unlike(ranks)] == [name] * told
