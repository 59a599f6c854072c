"""What holds a training job, on hand-made jobs: the cause, whose it is, the line; and where it must not be said.

A wrong cause that is sure of itself costs more than none, so each rule has its neighbours here: the same picture with
one thing changed that makes it innocent.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from gpudoctor.causes import CAUSES
from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.job import HangJob
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.recorders import GroupSplit, compare
from gpudoctor.hang.report import HangCause, JobReport
from gpudoctor.knowledge.places import Place, place_of
from gpudoctor.snapshot.evidence import (
    Collective,
    Frame,
    GpuUse,
    KernelEvent,
    Recorder,
    Socket,
    SourceContext,
    Thread,
    Unread,
)
from gpudoctor.sure import BEST, LIKELY, POSSIBLE, SCALE
from tests.hang_jobs import (
    PROGRAM,
    a_job,
    data_loader,
    is_in,
    launcher,
    member,
    place_at,
    serves,
    sleeps,
    source,
    stack,
    waits,
)

LOOP = ("for", 25, "batch in loader")
RANK_0 = ("if", 40, "rank == 0")


def reported(job: HangJob) -> JobReport:
    unread: list[Any] = []
    report = conclude_job(job, unread)
    assert unread == [], "a rule failed"
    return report


def first(job: HangJob) -> HangCause:
    causes = reported(job).causes
    assert causes, "no cause"
    return causes[0]


def src(line: int, **more: Any) -> tuple[SourceContext, ...]:
    return (source(line, **more),)


def entry(operation: str, sequence: int, size: int = 16, group: str = "0", **more: Any) -> Collective:
    frame = Frame("main", PROGRAM, more.pop("at", 41))
    return Collective(
        group=group,
        sequence=sequence,
        operation=operation,
        input_sizes=((size,),),
        dtypes=("float32",),
        frames=(frame,),
        **more,
    )


def done(collective: Collective) -> Collective:
    return structs.replace(collective, state="completed")


def agreed(job: HangJob) -> GroupSplit:
    assert job.agreement is not None and job.agreement.first is not None
    return job.agreement.first


def recorder(rank: int, *entries: Collective) -> Recorder:
    return Recorder(source="dump", rank=rank, backend="gloo", entries=entries, total=len(entries))


def recorded(*members: Any, entries: Sequence[Sequence[Collective]], **more: Any) -> HangJob:
    recorders = {rank: recorder(rank, *each) for rank, each in enumerate(entries)}
    return a_job(*members, agreement=compare(recorders, len(entries)), **more)


# ---------------------------------------------------------------- each cause, as a job shows it

GUARDED = src(41, inside=[RANK_0, LOOP], calls=[("barrier", 41, "rank == 0"), ("all_reduce", 30, "")])
ELSE = src(44, inside=[("else", 40, "rank == 0"), LOOP])
WORKER_LOCK = data_loader(77, 4001, frames=[Frame("__getitem__", PROGRAM, 12)])
SAVES = Thread(id=77, frames=stack(place_at("collective", "gather_object", at=27, function="write")))
EPOCHS = ("for", 57, "epoch in range(3)")


def below_epoch(rank: int) -> Any:
    """A rank in backward, in the loop of a function that the loop over epochs calls."""
    place = place_at("backward", at=12, function="train_epoch")
    place = place._replace(user_frames=(place.user_frames[0], Frame("main", PROGRAM, 58), *place.user_frames[1:]))
    inner = source(12, inside=[("for", 10, "batch in loader")], function="train_epoch")
    return member(rank, place, sources=(inner, source(58, inside=[EPOCHS])))


GIL_THREAD = stack(place_at("user code", "", at=60, function="encode"))

FIRES: dict[str, tuple[HangJob, str, tuple[int, ...], int | None]] = {
    "a barrier under rank == 0": (
        a_job(waits(0, "barrier", sources=GUARDED), waits(1, at=30), waits(2, at=30)),
        "rank0-only-collective",
        (0,),
        40,
    ),
    "a barrier under rank == 0, in a caller": (
        a_job(
            member(
                0,
                place_at("collective", "all_reduce", at=12, function="evaluate")._replace(
                    user_frames=(Frame("evaluate", PROGRAM, 12), Frame("main", PROGRAM, 41))
                ),
                sources=(source(12, function="evaluate"), *GUARDED),
            ),
            waits(1, at=50, sources=src(50, inside=[LOOP])),
        ),
        "rank0-only-collective",
        (0,),
        40,
    ),
    "a barrier that all but rank 0 reach": (
        a_job(
            *(waits(rank, "barrier", sources=src(41, inside=[("if", 40, "rank != 0")])) for rank in (1, 2, 3)),
            waits(0, at=60),
        ),
        "rank0-only-collective",
        (0,),
        40,
    ),
    "a new group under a condition": (
        a_job(
            *(
                is_in(rank, "communicator init", "new_group", at=41, sources=src(41, inside=[("if", 40, "rank < 2")]))
                for rank in (0, 1)
            ),
            waits(2, at=50),
            waits(3, at=50),
        ),
        "rank0-only-collective",
        (0, 1),
        40,
    ),
    "fewer batches, then a barrier behind the loop": (
        a_job(
            waits(0, at=30, sources=src(30, inside=[LOOP])),
            waits(1, "barrier", at=50, sources=src(50)),
            waits(2, at=30, sources=src(30, inside=[LOOP])),
        ),
        "uneven-inputs",
        (1,),
        25,
    ),
    "fewer batches, then the end": (
        a_job(
            is_in(0, "backward", at=30, sources=src(30, inside=[LOOP])),
            is_in(1, "exit", "destroy_process_group", at=70, sources=src(70)),
        ),
        "uneven-inputs",
        (1,),
        25,
    ),
    "a continue that passes the all_reduce by": (
        a_job(
            waits(0, at=30, sources=src(30, inside=[LOOP], exits=[("continue", 27, "not isfinite(batch)")])),
            waits(1, "barrier", at=50, sources=src(50)),
        ),
        "rank-divergent-decision",
        (1,),
        27,
    ),
    "an exception that is swallowed": (
        a_job(
            waits(0, at=30, sources=src(30, inside=[("try", 28, ""), LOOP], exits=[("pass", 31, "Exception")])),
            waits(1, "broadcast", at=35, sources=src(35, inside=[LOOP])),
            waits(2, at=30, sources=src(30, inside=[("try", 28, ""), LOOP], exits=[("pass", 31, "Exception")])),
        ),
        "rank-divergent-decision",
        (1,),
        31,
    ),
    "an early stop that one rank takes": (
        a_job(
            waits(0, at=30, sources=src(30, inside=[LOOP], exits=[("break", 33, "loss < target")])),
            waits(1, "all_gather", at=50, sources=src(50)),
        ),
        "rank-divergent-decision",
        (1,),
        33,
    ),
    "two orders in two branches": (
        a_job(
            waits(
                0,
                "all_reduce",
                at=41,
                sources=src(
                    41,
                    inside=[RANK_0],
                    calls=[
                        ("all_reduce", 41, "rank == 0"),
                        ("broadcast", 42, "rank == 0"),
                        ("broadcast", 44, "not (rank == 0)"),
                        ("all_reduce", 45, "not (rank == 0)"),
                    ],
                ),
            ),
            waits(
                1,
                "broadcast",
                at=44,
                sources=src(
                    44,
                    inside=[("else", 40, "rank == 0")],
                    calls=[
                        ("all_reduce", 41, "rank == 0"),
                        ("broadcast", 42, "rank == 0"),
                        ("broadcast", 44, "not (rank == 0)"),
                        ("all_reduce", 45, "not (rank == 0)"),
                    ],
                ),
            ),
        ),
        "collective-order-mismatch",
        (1,),
        44,
    ),
    "two groups in two branches": (
        a_job(
            waits(0, at=41, sources=src(41, inside=[RANK_0], text="dist.all_reduce(x, group=data)")),
            waits(1, at=43, sources=src(43, inside=[("else", 40, "rank == 0")], text="dist.all_reduce(x, group=rest)")),
        ),
        "collective-order-mismatch",
        (1,),
        43,
    ),
    "backward waits for one that is through with it": (
        a_job(
            is_in(0, "backward", at=30, sources=src(30, inside=[LOOP])),
            waits(1, "barrier", at=34, sources=src(34, inside=[LOOP])),
            is_in(2, "backward", at=30, sources=src(30, inside=[LOOP])),
        ),
        "unused-parameters",
        (1,),
        30,
    ),
    "backward waits for one in a collective of a condition of its own": (
        a_job(
            is_in(0, "backward", at=30, sources=src(30, inside=[LOOP])),
            waits(1, "all_gather", at=34, sources=src(34, inside=[("if", 33, "bar.n and bar.n % 5 == 0"), LOOP])),
            is_in(2, "backward", at=30, sources=src(30, inside=[LOOP])),
        ),
        "rank-divergent-decision",
        (1,),
        33,
    ),
    "one that a method has stopped, named like a counter": (
        a_job(
            waits(0, at=41, sources=src(41, inside=[LOOP], exits=[("break", 45, "stopper.step(loss(epoch))")])),
            waits(1, "barrier", at=60, sources=src(60)),
            waits(2, at=41, sources=src(41, inside=[LOOP], exits=[("break", 45, "stopper.step(loss(epoch))")])),
        ),
        "rank-divergent-decision",
        (1,),
        45,
    ),
    "past the loop of a function that the others are in, called in every epoch": (
        a_job(*(below_epoch(rank) for rank in (0, 1)), waits(2, "barrier", at=60, sources=src(60, inside=[EPOCHS]))),
        "uneven-inputs",
        (2,),
        10,
    ),
    "a thread that gathers beside the main one": (
        a_job(*(waits(rank, "barrier", at=45, more_threads=(SAVES,)) for rank in (0, 1))),
        "collective-order-mismatch",
        (0, 1),
        27,
    ),
    "a driver and its workers": (
        a_job(
            waits(0, "all_gather_object", at=22, function="list", sources=src(22, function="list")),
            *(waits(rank, "broadcast", at=37, function="work", sources=src(37, function="work")) for rank in (1, 2)),
        ),
        "collective-order-mismatch",
        (0,),
        22,
    ),
    "a group that rank 2 has not created": (
        a_job(
            *(
                is_in(
                    rank,
                    "communicator init",
                    "new_group",
                    at=21,
                    sources=src(21, calls=[("new_group", 20, "rank in members"), ("new_group", 21, "")]),
                    sockets=tuple(
                        Socket(state="LISTEN", local="10.0.0.1", local_port=4000 + port)
                        for port in range(2 if rank == 2 else 3)
                    ),
                )
                for rank in range(3)
            ),
        ),
        "collective-order-mismatch",
        (2,),
        21,
    ),
    "a sleep that only the kernel tells of": (
        a_job(
            member(0, place_at("unknown")),
            member(1, place_at("unknown"), waits_in="hrtimer_nanosleep"),
            member(2, place_at("unknown")),
        ),
        "slow-rank-timeout",
        (1,),
        None,
    ),
    "a dead rank, and one that polls for its file": (
        a_job(
            sleeps(1, moved=True, sockets=(Socket(state="CLOSE_WAIT", local="127.0.0.1", local_port=4),)),
            missing=(0,),
            master_address="127.0.0.1",
            launchers={},
        ),
        "rank-died",
        (0,),
        None,
    ),
    "sizes that differ, by the recorder": (
        recorded(waits(0), waits(1), entries=[[entry("all_reduce", 7, 16)], [entry("all_reduce", 7, 12)]]),
        "shape-mismatch",
        (1,),
        41,
    ),
    "operations in another order, by the recorder": (
        recorded(
            waits(0), waits(1), waits(2),
            entries=[
                [entry("all_reduce", 7), entry("all_gather", 8, at=52)],
                [entry("all_gather", 7, at=52), entry("all_reduce", 8)],
                [entry("all_reduce", 7), entry("all_gather", 8, at=52)],
            ],
        ),
        "collective-order-mismatch",
        (1,),
        52,
    ),
    "all receive": (
        a_job(*(is_in(rank, "point-to-point", "recv", at=33) for rank in (0, 1))),
        "p2p-order",
        (0, 1),
        33,
    ),
    "a sleep": (a_job(waits(0), sleeps(1, at=52), waits(2)), "slow-rank-timeout", (1,), 52),
    "a sleep before the start": (
        a_job(is_in(0, "rendezvous", "TCPStore", at=20), sleeps(1, at=15)),
        "slow-rank-timeout",
        (1,),
        15,
    ),
    "a preparation of rank 0 that computes": (
        a_job(
            is_in(0, "user code", at=41, moved=True, sources=GUARDED),
            waits(1, "barrier", at=50),
        ),
        "slow-rank-timeout",
        (0,),
        41,
    ),
    "an open that does not come back": (
        a_job(waits(0), is_in(1, "storage", "open", at=52, waits_in="wait_for_partner")),
        "storage-stall",
        (1,),
        52,
    ),
    "state D in both looks": (
        a_job(waits(0), member(1, place_at("unknown"), state="D", waits_in="nfs_wait_bit_killable")),
        "storage-stall",
        (1,),
        None,
    ),
    "its cgroup grants no memory, and kills nobody": (
        a_job(waits(0), member(1, place_at("user code", at=9), state="D", waits_in="mem_cgroup_oom_synchronize")),
        "memory-limit-wait",
        (1,),
        9,
    ),
    "over memory.high, though it runs now and then": (
        a_job(
            waits(0),
            member(1, place_at("user code", at=9), state="D", waits_in="mem_cgroup_handle_over_high", moved=None),
        ),
        "memory-limit-wait",
        (1,),
        9,
    ),
    "a data loader over memory.high": (
        a_job(
            waits(0),
            is_in(
                1,
                "data",
                "DataLoader",
                at=26,
                data_loaders=(data_loader(77, 4001, state="D", waits_in="__mem_cgroup_handle_over_high"),),
            ),
        ),
        "memory-limit-wait",
        (1,),
        26,
    ),
    "a frozen cgroup": (
        a_job(
            waits(0),
            member(1, place_at("user code", at=52), frozen="/sys/fs/cgroup/docker/3f/cgroup.freeze"),
        ),
        "stopped-rank",
        (1,),
        52,
    ),
    "a barrier in the finally of a try that others are in": (
        a_job(
            waits(0, at=44, sources=src(44, inside=[("try", 43, "")], calls=[("barrier", 46, "")])),
            waits(1, "barrier", at=46, sources=src(46, inside=[("finally", 43, "")])),
        ),
        "teardown-deadlock",
        (1,),
        46,
    ),
    "one rank in another group, whose members no recorder names": (
        recorded(
            waits(0, at=41),
            waits(1, at=41),
            waits(2, at=41),
            entries=[
                (entry("all_reduce", 1, group="1"),),
                (entry("all_reduce", 1, group="2", at=52),),
                (entry("all_reduce", 1, group="1"),),
            ],
        ),
        "collective-order-mismatch",
        (1,),
        52,
    ),
    "a group that the rank which is past its creation has left out": (
        a_job(
            *(
                is_in(
                    rank,
                    "communicator init",
                    "new_group",
                    at=21,
                    sources=src(21, calls=[("new_group", 20, "rank in members"), ("new_group", 21, "")]),
                )
                for rank in (0, 1)
            ),
            waits(2, at=24, sources=src(24)),
        ),
        "collective-order-mismatch",
        (2,),
        20,
    ),
    "a data loader in a lock": (
        a_job(waits(0), is_in(1, "data", "DataLoader", at=26, data_loaders=(WORKER_LOCK,))),
        "dataloader-fork-deadlock",
        (1,),
        26,
    ),
    "a data loader that is stopped": (
        a_job(waits(0), is_in(1, "data", "DataLoader", at=26, data_loaders=(data_loader(77, 4001, state="T"),))),
        "stopped-rank",
        (1,),
        26,
    ),
    "the lock of Python, kept in native code": (
        a_job(
            waits(0),
            member(
                1,
                place_at("user code", at=52),
                owns_gil=False,
                more_threads=(
                    Thread(id=9001, name="tokenizer", state="S", switches=4, owns_gil=True, frames=GIL_THREAD,
                           waits_in="hrtimer_nanosleep"),
                ),
            ),
        ),
        "gil-deadlock",
        (1,),
        60,
    ),
    "a stop": (a_job(waits(0), member(1, place_at("user code", at=52), state="T")), "stopped-rank", (1,), 52),
    "a debugger": (a_job(waits(0), member(1, place_at("unknown"), state="t")), "stopped-rank", (1,), None),
    "a breakpoint": (a_job(waits(0), is_in(1, "input", "breakpoint", at=52)), "stopped-rank", (1,), 52),
    "a zombie that was killed": (
        a_job(waits(0), member(1, place_at("unknown"), state="Z", exit_code=9, samples=0)),
        "rank-died",
        (1,),
        None,
    ),
    "a killed rank, and one that its launcher ended then": (
        a_job(
            waits(0),
            member(1, place_at("unknown"), state="Z", exit_code=15, samples=0),
            member(2, place_at("unknown"), state="Z", exit_code=11, samples=0),
        ),
        "rank-died",
        (2,),
        None,
    ),
    "a rank that its node lacks": (
        a_job(
            waits(0, environment={"LOCAL_WORLD_SIZE": "2"},
                  sockets=(Socket(state="CLOSE_WAIT", local="10.0.0.1", local_port=4),)),
            missing=(1,),
            launchers={},
        ),
        "rank-died",
        (1,),
        None,
    ),
    "a GPU that fell off the bus": (
        a_job(
            waits(0),
            waits(1),
            nodes={"a": {"gpus": (GpuUse(index=1, lost="GPU is lost"),),
                         "kernel": (KernelEvent(kind="xid", text="Xid 79", pid=4001, seconds_ago=30.0),)}},
        ),
        "xid-gpu-lost",
        (1,),
        None,
    ),
    "threads that do not end": (
        a_job(*(is_in(rank, "exit", "threads that are not daemons", at=88) for rank in (0, 1))),
        "teardown-deadlock",
        (0, 1),
        88,
    ),
}  # fmt: skip


def test_calls_of_different_lines_are_no_order_of_their_own() -> None:
    """barrier_in_exit and accumulates_alone of tests/lab/hangs: why they stand at two lines, recorders do not tell."""
    for operation in ("all_gather", "all_reduce"):
        own = [[entry("all_reduce", 7)], [entry(operation, 7, size=4, at=52)], [entry("all_reduce", 7)]]
        found = first(recorded(waits(0), waits(1), waits(2), entries=own))
        assert (found.cause, found.ranks) == ("rank-divergent-decision", (1,))
        assert found.confidence < 0.5


def test_ranks_part_where_their_lines_do_and_not_where_it_is_noticed() -> None:
    """sample_on_rank0: what rank 0 alone calls is alike to what the others call next, and goes through."""
    own = [
        [done(entry("all_gather", 5)), done(entry("all_gather", 6, at=31)), entry("all_gather", 7, size=9, at=25)],
        *[
            [done(entry("all_gather", 5)), done(entry("all_gather", 6, at=25)), entry("all_gather", 7, size=4, at=26)]
            for _ in (1, 2)
        ],
    ]
    job = recorded(waits(0, at=31), waits(1, at=26), waits(2, at=26), entries=own)
    split = agreed(job)
    assert (split.sequence, split.kind) == (6, "shape")
    assert [(ranks, each.frames[0].line) for ranks, each in split.parties] == [((1, 2), 25), ((0,), 31)]
    # The halves of a condition on the rank meet at every step: these are no parting.
    halves = [
        [done(entry("all_gather", number, at=line if number % 2 else 60)) for number in range(1, 6)]
        + [entry("all_gather", 6, size=line, at=line + 1)]
        for line in (31, 25, 25)
    ]
    split = agreed(recorded(waits(0), waits(1), waits(2), entries=halves))
    assert split.sequence == 6


def test_a_rank_that_torchrun_does_not_miss_has_come_to_its_end() -> None:
    """exits_early: torchrun ends all ranks when one fails; where it watches on, that one has ended with status 0."""
    for text, cause in (("step in range(1000)", "rank-divergent-decision"), ("batch in loader", "uneven-inputs")):
        around = src(41, inside=[("for", 25, text)])
        job = a_job(waits(0, sources=around, environment={"LOCAL_WORLD_SIZE": "2"}), missing=(1,))
        for operation, sure in (("_invoke_run", 0.65), ("_stop_workers", 0.45)):
            place = Place("sleep", operation)
            watching = tuple(structs.replace(each, place=place) for each in job.launchers)
            found = first(structs.replace(job, launchers=watching))
            assert (found.cause, found.ranks, found.confidence) == (cause if sure > 0.5 else found.cause, (1,), sure)
            assert "with status 0" in found.summary


def test_a_rank_in_the_end_of_a_with_that_others_are_in() -> None:
    """barrier_in_exit: the line of a `with` is also where its end is called."""
    inside = (*src(38, inside=[("with", 37, "Together()")]), *src(20, inside=[("for", 18, "step in range(9)")]))
    at_end = Place("collective", "barrier", None, Frame("__exit__", PROGRAM, 17), tuple(
        Frame(name, PROGRAM, line) for name, line in (("Together.__exit__", 17), ("main", 37), ("<module>", 43))
    ))  # fmt: skip
    trains = at_end._replace(operation="all_reduce", user_frame=Frame("train", PROGRAM, 20), user_frames=tuple(
        Frame(name, PROGRAM, line) for name, line in (("train", 20), ("main", 38), ("<module>", 43))
    ))  # fmt: skip
    job = a_job(
        member(0, trains, sources=inside), member(1, at_end, sources=src(37)), member(2, trains, sources=inside)
    )
    found = first(job)
    assert (found.cause, found.ranks) == ("teardown-deadlock", (1,))
    assert "left a `with`" in found.summary and "of its `__exit__`" in found.summary
    entering = at_end._replace(user_frames=(Frame("__enter__", PROGRAM, 14), *at_end.user_frames[1:]))
    before = a_job(member(0, trains, sources=inside), member(1, entering, sources=src(37)))
    assert first(before).cause != "teardown-deadlock"


def test_a_loader_whose_own_code_waits_for_a_server() -> None:
    """loader_waits: the rank wakes every five seconds to see whether its worker lives, and does not get on."""
    frames = [Frame("Samples.__getitem__", PROGRAM, 23), Frame("fetch", "/x/torch/utils/data/_utils/fetch.py", 54)]
    worker = data_loader(77, 4001, frames=frames, waits_in="wait_woken")
    rank = is_in(1, "data", "DataLoader", at=36, moved=True, cpu=(3.0, 3.0), data_loaders=(worker,))
    report = reported(a_job(waits(0), rank, waits(2)))
    assert report.state == "hung"
    assert (report.causes[0].cause, report.causes[0].ranks) == ("dataloader-worker-slow", (1,))
    assert "the data set's own code" in report.causes[0].summary


def test_an_exchange_whose_sizes_do_not_fit() -> None:
    """experts_of_another_size: what all give is not what all take."""

    def exchange(takes: int, *, over: bool = False) -> Collective:
        made = structs.replace(entry("all_to_all_single", 4, size=12), output_sizes=((takes,),))
        return done(made) if over else made

    job = recorded(waits(0), waits(1), waits(2), entries=[[exchange(12)], [exchange(11)], [exchange(12, over=True)]])
    assert (first(job).cause, first(job).ranks) == ("shape-mismatch", (1,))
    fits = recorded(waits(0), waits(1), waits(2), entries=[[exchange(13)], [exchange(11)], [exchange(12)]])
    assert all(cause.confidence < 0.5 for cause in reported(fits).causes)


def test_an_exchange_in_equal_parts_of_unlike_tensors() -> None:
    """files_as_walked: each takes as much as it gives, and not as much as the others."""
    sizes = (12, 30, 12)
    entries = [[structs.replace(entry("all_to_all_single", 4, size=n), output_sizes=((n,),))] for n in sizes]
    job = recorded(waits(0), waits(1), waits(2), entries=entries)
    assert (first(job).cause, first(job).ranks) == ("shape-mismatch", (1,))


@pytest.mark.parametrize(
    ("asks", "cause"),
    [
        ("self.lock.exists()", "file-lock-wait"),
        ("os.path.exists(folder / 'lock')", "file-lock-wait"),
        ("not self.lock.exists()", "slow-rank-timeout"),
        ("not Path(done).is_file()", "slow-rank-timeout"),
        ("pending(lock)", "slow-rank-timeout"),
    ],
)
def test_a_file_that_is_waited_for_to_go_is_a_lock(asks: str, cause: str) -> None:
    loop = source(25, function="wait", inside=[("while", 24, asks), ("function", 23, "wait")])
    rank = sleeps(1, at=25, function="wait", moved=True, sources=(loop,))
    found = first(a_job(waits(0), rank, waits(2)))
    assert (found.cause, found.ranks) == (cause, (1,))


@pytest.mark.parametrize("name", FIRES)
def test_what_holds_a_job_is_named(name: str) -> None:
    job, cause, ranks, line = FIRES[name]
    found = first(job)
    assert (found.cause, found.ranks) == (cause, ranks), [
        (each.cause, each.confidence, each.ranks, each.summary) for each in reported(job).causes
    ]
    assert (found.where.line if found.where else None) == line
    assert found.confidence >= 0.5
    assert reported(job).state in ("hung", "slow")
    assert found.evidence
    assert found.fix.text


@pytest.mark.parametrize("name", FIRES)
def test_its_words_keep_the_rules(name: str) -> None:
    for cause in reported(FIRES[name][0]).causes:
        assert cause.cause in CAUSES
        assert cause.confidence in SCALE
        assert not cause.summary.endswith("."), cause.summary
        assert "\n" not in cause.summary
        assert "!" not in cause.summary.replace("!=", "")
        assert cause.confirm or cause.confidence >= 0.9, f"{cause.cause} is not sure, and says no test that decides"


# ---------------------------------------------------------------- the same picture, and innocent

FIRST_LOAD = src(
    41,
    inside=[("if", 40, "local_rank not in [-1, 0]")],
    calls=[("barrier", 41, "local_rank not in [-1, 0]"), ("barrier", 44, "local_rank == 0")],
)
INNOCENT: dict[str, tuple[HangJob, str]] = {
    "one rank goes first, the others wait in the first of two barriers": (
        a_job(
            is_in(0, "storage", "torch.load", at=42, moved=True),
            waits(1, "barrier", sources=FIRST_LOAD),
            waits(2, "barrier", sources=FIRST_LOAD),
        ),
        "rank0-only-collective",
    ),
    "a condition that all ranks meet": (
        a_job(
            waits(0, sources=src(41, inside=[("if", 40, "local_rank != -1")])),
            waits(1, sources=src(41, inside=[("if", 40, "local_rank != -1")])),
            sleeps(2),
        ),
        "rank0-only-collective",
    ),
    "a broadcast in both branches": (
        a_job(
            waits(0, "broadcast", at=41, sources=src(41, inside=[RANK_0], calls=[
                ("broadcast", 41, "rank == 0"), ("broadcast", 44, "not (rank == 0)")])),
            waits(1, "broadcast", at=44, sources=src(44, inside=[("else", 40, "rank == 0")], calls=[
                ("broadcast", 41, "rank == 0"), ("broadcast", 44, "not (rank == 0)")])),
            sleeps(2, at=60),
        ),
        "rank0-only-collective",
    ),
    "a broadcast in both branches, where all wait": (
        a_job(
            waits(0, "broadcast", at=41, sources=src(41, inside=[RANK_0], text="dist.broadcast(x, src=0)", calls=[
                ("broadcast", 41, "rank == 0"), ("broadcast", 44, "not (rank == 0)")])),
            waits(1, "broadcast", at=44, sources=src(44, inside=[("else", 40, "rank == 0")],
                text="dist.broadcast(y, src=0)", calls=[
                ("broadcast", 41, "rank == 0"), ("broadcast", 44, "not (rank == 0)")])),
        ),
        "collective-order-mismatch",
    ),
    "a step that is counted ends the loop": (
        a_job(
            waits(0, at=30, sources=src(30, inside=[LOOP], exits=[("break", 33, "step >= max_steps")])),
            waits(1, "barrier", at=50, sources=src(50)),
        ),
        "rank-divergent-decision",
    ),
    "a file that is being written": (
        a_job(
            waits(0),
            is_in(1, "storage", "torch.save", at=52, moved=True, waits_in="", state="R", written=(1000, 900_000_000)),
        ),
        "storage-stall",
    ),
    "a data loader that works": (
        a_job(
            waits(0),
            is_in(1, "data", "DataLoader", at=26, data_loaders=(data_loader(77, 4001, cpu=(1.0, 3.2), waits_in=""),)),
        ),
        "dataloader-fork-deadlock",
    ),
    "a thread that computes in Python": (
        a_job(
            waits(0),
            is_in(1, "user code", at=52, moved=True, state="R", waits_in="", owns_gil=True),
        ),
        "gil-deadlock",
    ),
    "ranks on nodes that were not asked": (
        a_job(waits(0, environment={"LOCAL_WORLD_SIZE": "1"}), missing=(1,), launchers={}),
        "rank-died",
    ),
    "a rank that ended well under a torchrun that lives": (
        a_job(waits(0, environment={"LOCAL_WORLD_SIZE": "2"}), missing=(1,), launchers={"a": launcher()}),
        "rank-died",
    ),
    "an Xid from before the job": (
        a_job(
            waits(0),
            sleeps(1),
            nodes={"a": {"kernel": (KernelEvent(kind="xid", text="Xid 79", seconds_ago=86_400.0),)}},
        ),
        "xid-gpu-lost",
    ),
    "an Xid of a process that is not of the job": (
        a_job(
            waits(0),
            sleeps(1),
            nodes={"a": {"kernel": (KernelEvent(kind="xid", text="Xid 31", pid=777, seconds_ago=30.0),)}},
        ),
        "xid-gpu-lost",
    ),
    "sends and receives that pair": (
        a_job(is_in(0, "point-to-point", "send", at=33), is_in(1, "point-to-point", "recv", at=35), sleeps(2)),
        "p2p-order",
    ),
    "groups that are being created, one rank later than the others": (
        a_job(
            *(
                is_in(
                    rank,
                    "communicator init",
                    "new_group",
                    at=21,
                    moved=rank == 2,
                    sockets=(Socket(state="LISTEN", local="10.0.0.1", local_port=4000),) * (rank + 1),
                )
                for rank in range(3)
            ),
        ),
        "collective-order-mismatch",
    ),
    "kernel functions that say nothing": (
        a_job(
            member(0, place_at("unknown")),
            member(1, place_at("unknown"), waits_in="do_poll"),
            member(2, place_at("unknown")),
        ),
        "slow-rank-timeout",
    ),
    "past a backward, and no program text": (
        a_job(is_in(0, "backward", at=30), waits(1, "barrier", at=34)),
        "unused-parameters",
    ),
    "ranks that ended one after the other, and the last computes": (
        a_job(
            is_in(1, "user code", moved=True),
            missing=(0,),
            master_address="127.0.0.1",
            launchers={},
        ),
        "rank-died",
    ),
    "gathers of different sizes": (
        recorded(
            waits(0, "all_to_all"), waits(1, "all_to_all"),
            entries=[[entry("all_to_all", 3, 8)], [entry("all_to_all", 3, 24)]],
        ),
        "shape-mismatch",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INNOCENT)
def test_what_looks_alike_is_not_named(name: str) -> None:
    job, cause = INNOCENT[name]
    sure = [each for each in reported(job).causes if each.cause == cause and each.confidence >= 0.5]
    assert sure == []


@pytest.mark.parametrize(
    ("text", "ago", "for_memory"),
    [
        ("Memory cgroup out of memory: Killed process 77 (python) total-vm:1kB", 30.0, True),
        ("Memory cgroup out of memory: Killed process 77 (python) total-vm:1kB", 86_400.0, False),
        ("Memory cgroup out of memory: Killed process 77 (chrome) total-vm:1kB", 30.0, False),
    ],
)
def test_whom_the_kernel_ended_for_memory_may_be_a_stranger(text: str, ago: float, for_memory: bool) -> None:
    nodes = {"a": {"kernel": (KernelEvent(kind="oom", text=text, pid=77, seconds_ago=ago),)}}
    job = a_job(waits(0, environment={"LOCAL_WORLD_SIZE": "2"}), missing=(1,), launchers={}, nodes=nodes)
    found = next(each for each in reported(job).causes if each.cause == "rank-died")
    assert ("killed for memory" in found.summary) == for_memory, found


@pytest.mark.parametrize("name", FIRES)
def test_a_job_that_gets_on_has_no_hang(name: str) -> None:
    """The same places, but one of the ranks that waited has got on between the looks."""
    job = FIRES[name][0]
    wakes = waits(9, at=41, moved=True)
    others = [
        member(rank.rank, rank.place, moved=rank.moved, sources=rank.evidence.sources, data_loaders=rank.data_loaders)
        for rank in job.ranks
        if rank.state not in ("T", "t", "F", "Z")
    ]
    report = reported(a_job(*others, wakes, world_size=10, agreement=job.agreement))
    assert report.causes == ()
    assert report.state == "running"


# ---------------------------------------------------------------- what nothing decides


def test_ranks_that_agree_and_stand_are_undecided_and_the_test_is_named() -> None:
    report = reported(a_job(waits(0), waits(1), waits(2)))
    assert report.state == "hung"
    assert all(cause.confidence < 0.5 for cause in report.causes)
    assert report.undecided
    assert "recorder" in report.only_recorder


def test_gpu_ranks_that_agree_get_alternatives() -> None:
    gpus = tuple(
        GpuUse(
            index=index, utilization_percent=100, memory_utilization_percent=0, power_watts=90.0, pids=(4000 + index,)
        )
        for index in (0, 1)
    )
    spin: dict[str, Any] = {"state": "R", "waits_in": "", "cpu": (3.0, 5.5), "switches": (50, 60)}
    ranks = [is_in(rank, "cuda sync", "synchronize", at=41, moved=True, **spin) for rank in (0, 1)]
    report = reported(a_job(*ranks, nodes={"a": {"gpus": gpus}}))
    assert report.state == "hung"
    assert {"p2p-acs-iommu", "nccl-bug"} <= {cause.cause for cause in report.causes}
    assert all(cause.confidence < 0.5 for cause in report.causes)


def test_gpu_ranks_that_spin_and_move_memory_are_not_called_hung() -> None:
    gpus = tuple(
        GpuUse(index=index, utilization_percent=98, memory_utilization_percent=40, pids=(4000 + index,))
        for index in (0, 1)
    )
    spin: dict[str, Any] = {"state": "R", "waits_in": "", "cpu": (3.0, 5.5), "switches": (50, 60)}
    ranks = [is_in(rank, "cuda sync", "item", at=41, moved=True, **spin) for rank in (0, 1)]
    report = reported(a_job(*ranks, nodes={"a": {"gpus": gpus}}))
    assert report.state == "running"
    assert report.causes == ()
    assert "--watch" in report.undecided


def test_a_rank_that_computes_an_ordinary_step_is_undecided() -> None:
    report = reported(a_job(waits(0), is_in(1, "user code", at=33, moved=True)))
    assert report.state == "slow"
    assert all(cause.confidence < 0.5 for cause in report.causes)
    assert "--watch" in report.undecided


def test_places_of_hand_made_stacks_are_those_that_are_read() -> None:
    """The builders' stacks mean to `places` what they say."""
    for kind, operation in (("collective", "all_reduce"), ("data", "DataLoader"), ("backward", "backward")):
        place = place_at(kind, operation)  # type: ignore[arg-type]
        found = place_of(Thread(id=1, frames=stack(place), state="S"))
        assert (found.kind, found.user_frame) == (kind, place.user_frame)


def test_ranks_that_all_wait_for_requests_are_no_hang() -> None:
    """A server between requests: every rank stands in a queue, and none waits for another."""
    report = reported(a_job(*(serves(rank, at=44) for rank in (0, 1))))
    assert (report.state, report.causes) == ("slow", ())
    assert "queue.get at train.py:44" in report.undecided


def test_a_server_whose_first_rank_has_no_request_is_no_sure_hang() -> None:
    idle = serves(0, at=44, sources=src(44, inside=[("if", 40, "rank == 0")]))
    report = reported(a_job(idle, waits(1, "broadcast", at=45)))
    assert all(cause.confidence < 0.5 for cause in report.causes)
    assert report.state == "slow"


def test_what_follows_from_ranks_that_have_parted_is_no_second_cause() -> None:
    """Past a `continue`, a rank comes to the others' number with another collective."""
    loop = source(41, inside=[("for", 25, "step in range(1000)")], exits=[("continue", 38, "loss.isnan()")])
    job = recorded(
        waits(0, at=41, sources=(loop,)),
        waits(1, "barrier", at=60, sources=src(60)),
        entries=([entry("all_reduce", 5)], [entry("barrier", 5, 1, at=60)]),
    )
    assert [cause.cause for cause in reported(job).causes][:1] == ["rank-divergent-decision"]
    assert "collective-order-mismatch" not in {cause.cause for cause in reported(job).causes}


def test_who_waits_for_a_file_stands_still_where_somebody_has_seen_for_how_long() -> None:
    """One look cannot tell it from work; `gpudoctor run` has seen that no collective was begun meanwhile."""
    looking = src(52, inside=[("while", 51, "not os.path.exists(path)")])
    job = a_job(waits(0), sleeps(1, moved=True, sources=looking))
    seen = structs.replace(job, evidence=structs.replace(job.evidence, quiet_seconds=130.0))
    assert (reported(job).state, first(job).confidence) == ("slow", POSSIBLE)
    assert (reported(seen).state, first(seen).cause, first(seen).ranks) == ("hung", "slow-rank-timeout", (1,))
    counting = src(52, inside=[("while", 51, "len(rows) < wanted")])
    works = a_job(waits(0), sleeps(1, moved=True, sources=counting))
    works = structs.replace(works, evidence=structs.replace(works.evidence, quiet_seconds=130.0))
    assert reported(works).state == "slow", "what its own loop changes may come by its own work"
    busy = data_loader(4101, 4001, cpu=(1.0, 2.5))
    helped = a_job(waits(0), sleeps(1, moved=True, sources=looking, data_loaders=(busy,)))
    helped = structs.replace(helped, evidence=structs.replace(helped.evidence, quiet_seconds=130.0))
    assert reported(helped).state == "slow", "a process of its own may make the file"


@pytest.mark.parametrize(("age", "verdict"), [(6.0, "starting"), (600.0, "moves")])
def test_who_has_only_now_come_to_where_ranks_begin_has_got_nothing(age: float, verdict: str) -> None:
    """Later it may be a group that is made in each epoch."""
    begins, imports = place_at("rendezvous", "init_process_group"), place_at("user code")
    comes = member(1, begins, first=imports, age=age, moved=True)
    assert progress_of(a_job(member(0, begins, age=age), comes)).verdict == verdict


@pytest.mark.parametrize(
    ("reason", "cause", "sure"),
    [
        ("it waits in the kernel (state D), where reading it could block", "kernel-wait", LIKELY),
        ("denied", "rank-died", BEST),
    ],
)
def test_a_missing_rank_may_be_a_process_that_could_not_be_asked(reason: str, cause: str, sure: float) -> None:
    """The first look says so of all nodes; that a rank has died is certain where everybody was asked."""
    job = a_job(waits(0, environment={"LOCAL_WORLD_SIZE": "2"}), missing=(1,), launchers={})
    whose = Unread("environment of pid 77 python", reason, 77, job.user)
    told = first(structs.replace(job, evidence=structs.replace(job.evidence, unread=(whose,))))
    assert (told.cause, told.confidence, told.ranks) == (cause, sure, (1,))


def test_a_frozen_launcher_is_thawed_and_gets_no_signal() -> None:
    """docker pause freezes it with all of its ranks: kill -CONT would do nothing."""
    file = "/sys/fs/cgroup/docker/3f/cgroup.freeze"
    starts = structs.replace(launcher(), frozen=file)
    job = a_job(*(member(rank, place_at("user code", at=52), frozen=file) for rank in (0, 1)), launchers={"a": starts})
    told = reported(job).causes
    lines = [line for cause in told if cause.cause == "stopped-rank" for line in cause.fix.commands]
    assert told[0].ranks == (0, 1) and lines and all("cgroup.freeze" in line for line in lines), lines
