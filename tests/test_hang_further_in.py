"""Ranks that part for a reason further in than the line where they part: a condition in what one has called, a part of
a library for the first rank, other layers; calls that name a group; and what a loader's process waits for."""

import pytest
from msgspec import structs

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.knowledge.places import Kind
from gpudoctor.snapshot.evidence import Frame
from tests.hang_jobs import PROGRAM, TORCH, a_job, data_loader, is_in, place_at, serves, sleeps, source, waits
from tests.test_hang_parted import stands
from tests.test_hang_training import first, reported

LOOP = ("for", 40, "step in range(1000)")
LIGHTNING = "/venv/lib/python3.11/site-packages/lightning/pytorch"
BAR = f"{LIGHTNING}/callbacks/progress/tqdm_progress.py"
EPOCH_LOOP = f"{LIGHTNING}/loops/training_epoch_loop.py"
GRAPH = f"{TORCH}/autograd/graph.py"
COLLECTIVE: Kind = "collective"


def test_a_condition_in_what_one_of_them_has_called() -> None:
    """Both lines of the loop stand by themselves; the barrier is below an `if` of a function that one of them calls."""
    others = [
        stands(rank, COLLECTIVE, "all_reduce", [("main", 47, PROGRAM)], [source(47, inside=[LOOP])]) for rank in (0, 2)
    ]
    count = source(33, function="count", inside=[("if", 31, "self.tokens > self.limit"), ("function", 29, "count")])
    below = [("__del__", 21, PROGRAM), ("count", 33, PROGRAM), ("main", 51, PROGRAM)]
    one = stands(1, COLLECTIVE, "barrier", below, [source(21, function="__del__"), count, source(51, inside=[LOOP])])
    cause = first(a_job(*others, one))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,))
    assert "under `if self.tokens > self.limit` in line 31" in cause.summary

    busy = structs.replace(stands(3, "user code", "", [("main", 60, PROGRAM)], []), moved=True)
    slow = reported(a_job(*others, one, busy))
    assert not [said for said in slow.causes if said.cause == "rank-divergent-decision" and said.confidence > 0.5]


def test_a_collective_in_a_thread_that_another_rank_has_lost() -> None:
    """Its main thread waits for that one; the other rank's has failed, which nobody was told of."""
    beats = [("Beat.run", 27, PROGRAM)]
    one = stands(1, COLLECTIVE, "all_reduce", beats, [source(27, function="run")])
    place = one.place._replace(user_frames=one.place.user_frames[:1])  # a thread does not begin at the module
    one = structs.replace(one, acting=77, place=place, first_place=place)
    main = stands(0, COLLECTIVE, "barrier", [("main", 47, PROGRAM)], [source(47, inside=[LOOP])])
    cause = first(a_job(main, one))
    assert (cause.cause, cause.ranks) == ("thread-wait", (1,))
    assert "rank 0 has none in Beat.run" in cause.summary


@pytest.mark.parametrize("left", [False, True])
def test_what_a_thread_has_called_is_nothing_of_the_end(left: bool) -> None:
    """thread_saves: the recorder's line is a thread's, which begins at no module; the main thread is in the program."""
    others = [stands(rank, COLLECTIVE, "all_reduce", [("main", 47, PROGRAM)], [source(47)]) for rank in (0, 1)]
    below = [("write", 18, PROGRAM)]
    one = stands(2, COLLECTIVE, "all_reduce", below if left else [("main", 48, PROGRAM)], [source(18)])
    place = one.place._replace(user_frame=Frame("write", PROGRAM, 18), user_frames=(Frame("write", PROGRAM, 18),))
    if left:  # as what `atexit` calls
        samples = tuple(
            structs.replace(
                sample, threads=tuple(structs.replace(each, frames=each.frames[:-1]) for each in sample.threads)
            )
            for sample in one.evidence.samples
        )
        one = structs.replace(one, evidence=structs.replace(one.evidence, samples=samples))
    one = structs.replace(one, place=place, first_place=place)
    told = [cause.cause for cause in reported(a_job(*others, one)).causes]
    assert ("teardown-deadlock" in told) is left


def test_of_two_groups_nothing_is_made() -> None:
    one = stands(
        0, COLLECTIVE, "all_reduce", [("main", 47, PROGRAM)], [source(47, inside=[LOOP], text="f(x, group=tp)")]
    )
    count = source(33, function="count", inside=[("if", 31, "self.tokens > self.limit")], text="g(x, group=dp)")
    other = stands(
        1, COLLECTIVE, "barrier", [("count", 33, PROGRAM), ("main", 51, PROGRAM)], [count, source(51, inside=[LOOP])]
    )
    assert all(cause.confidence <= 0.5 for cause in reported(a_job(one, other)).causes)


@pytest.mark.parametrize(("condition", "told"), [("self.frames == 1", True), ("step == 1", False)])
def test_who_leaves_a_function_early_by_a_count_of_its_own_object(condition: str, told: bool) -> None:
    forward = source(36, function="forward", exits=[("return", 35, condition)])
    staying = [
        stands(
            rank,
            COLLECTIVE,
            "all_gather",
            [("norm", 17, PROGRAM), ("forward", 36, PROGRAM), ("main", 48, PROGRAM)],
            [source(17, function="norm"), forward, source(48, inside=[LOOP])],
        )
        for rank in (0, 1)
    ]
    past = stands(2, COLLECTIVE, "all_reduce", [("main", 51, PROGRAM)], [source(51, inside=[LOOP])])
    cause = first(a_job(*staying, past))
    assert (cause.confidence > 0.5) is told
    if told:
        assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (2,))
        assert cause.where is not None and cause.where.line == 35


def test_a_progress_bar_is_on_the_first_rank_only() -> None:
    """What leaves the framework's own function early is not blamed for what it has called."""
    advance = source(375, function="_Loop.advance", file=EPOCH_LOOP, exits=[("return", 284, "self.restarted")])
    asked = [
        ("Bar.get_metrics", 15, PROGRAM),
        ("TQDMProgressBar.on_train_batch_end", 281, BAR),
        ("_Loop.advance", 375, EPOCH_LOOP),
        ("main", 48, PROGRAM),
    ]
    one = stands(0, COLLECTIVE, "barrier", asked, [source(15, function="Bar.get_metrics"), advance])
    begins = source(300, function="_Loop.advance", file=EPOCH_LOOP, exits=[("return", 284, "self.restarted")])
    other = stands(1, COLLECTIVE, "broadcast", [("_Loop.advance", 300, EPOCH_LOOP), ("main", 48, PROGRAM)], [begins])
    report = reported(a_job(one, other))
    assert (report.causes[0].cause, report.causes[0].ranks) == ("rank0-only-collective", (0,))
    assert "called by TQDMProgressBar.on_train_batch_end" in report.causes[0].summary
    assert not [said for said in report.causes if said.ranks == (1,) and said.confidence > 0.5]


def test_other_collectives_in_the_backward_pass_of_one_line() -> None:
    engine = [("_engine_run_backward", 979, GRAPH), ("main", 39, PROGRAM)]
    others = [stands(rank, COLLECTIVE, "all_gather_single", engine, []) for rank in (0, 2)]
    job = a_job(*others, stands(1, COLLECTIVE, "reduce_scatter_single", engine, []))
    assert (first(job).cause, first(job).ranks) == ("rank-dependent-graph", (1,))


def test_a_call_that_names_a_group_waits_for_its_members() -> None:
    """One of them may be the rank that serves requests and has not been asked."""
    guard = source(73, inside=[("if", 70, "rank == 0")], text="dist.broadcast(weights, src=0, group=sync)")
    one = waits(0, "broadcast", at=73, sources=(guard,))
    other = waits(1, "all_reduce", at=89, sources=(source(89, text="dist.all_reduce(x, group=trainers)"),))
    for away in (serves(2), sleeps(2)):
        said = conclude_job(a_job(one, other, away)).causes
        assert not [cause for cause in said if cause.cause == "rank0-only-collective" and cause.confidence > 0.5]
    alone = first(a_job(one, other))
    assert alone.cause == "rank0-only-collective" and 0.5 < alone.confidence < 0.8


def test_a_process_of_a_loader_that_waits_in_the_data_set() -> None:
    python = "/usr/lib/python3.11/multiprocessing"
    frames = [
        Frame("Connection._recv", f"{python}/connection.py", 395),
        Frame("Queue.get", f"{python}/queues.py", 103),
        Frame("Problems.__getitem__", PROGRAM, 42),
        Frame("_worker_loop", f"{TORCH}/utils/data/_utils/worker.py", 374),
        Frame("main", PROGRAM, 55),
    ]
    worker = data_loader(77, 4001, frames=frames, waits_in="pipe_read")
    job = a_job(waits(0), is_in(1, "data", "DataLoader", at=55, data_loaders=(worker,)))
    assert (first(job).cause, first(job).ranks) == ("dataloader-worker-slow", (1,))
    assert "waits for multiprocessing.Queue.get in the data set's own code" in first(job).summary


def test_one_sleeps_and_one_serves_and_nobody_waits_for_a_rank() -> None:
    assert place_at("sleep").kind == "sleep"
    assert reported(a_job(sleeps(0), serves(1))).state == "slow"
