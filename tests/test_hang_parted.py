"""Where ranks part: in a framework's loop, below a swallowed exception, in a handler, under a condition of a function;
and a rank that works, or starts one command after the other, which has not left anything."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.relation import OWN_NUMBER
from gpudoctor.knowledge.place_markers import drives_training, is_program, normal
from gpudoctor.knowledge.places import Kind, Place, place_of
from gpudoctor.knowledge.waits import wait_of
from gpudoctor.read.job.source import context
from gpudoctor.snapshot.evidence import Frame, SourceContext, Thread
from tests.hang_jobs import PROGRAM, a_job, data_loader, is_in, member, source, waits
from tests.test_hang_training import first, reported

TRAINER = "/venv/lib/python3.11/site-packages/transformers/trainer.py"
EPOCHS = ("for", 25, "epoch in range(100)")


def stands(
    rank: int, kind: Kind, operation: str, lines: Sequence[tuple[str, int, str]], sources: Sequence[SourceContext]
) -> Rank:
    """A rank whose Python stack has these functions, innermost first: name, line, file."""
    frames = (*(Frame(name, file, line) for name, line, file in lines), Frame("<module>", PROGRAM, 900))
    users = tuple(frame for frame in frames if is_program(frame.file))
    one = member(rank, Place(kind, operation, None, users[0], users), sources=tuple(sources))
    samples = tuple(
        structs.replace(sample, threads=(structs.replace(sample.threads[0], frames=frames),))
        for sample in one.evidence.samples
    )
    return structs.replace(one, evidence=structs.replace(one.evidence, samples=samples))


def in_trainer(rank: int, kind: Kind, operation: str, line: int, inside: Sequence[tuple[str, int, str]]) -> Rank:
    asks = source(
        line,
        function="Trainer.loop",
        file=TRAINER,
        inside=inside,
        exits=[("break", 60, "self.control.should_training_stop")] if inside else [],
    )
    lines = [("Trainer.loop", line, TRAINER), ("Trainer.train", 20, TRAINER), ("main", 44, PROGRAM)]
    return stands(rank, kind, operation, lines, (asks,))


def test_ranks_part_in_a_loop_of_a_framework() -> None:
    job = a_job(
        in_trainer(0, "backward", "backward", 52, [("for", 50, "epoch in range(first, last)")]),
        in_trainer(1, "backward", "backward", 52, [("for", 50, "epoch in range(first, last)")]),
        in_trainer(2, "collective", "all_gather", 70, []),
    )
    cause = first(job)
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (2,))
    assert cause.where is not None and cause.where.line == 44  # in the program, from where it was called
    assert "(self.control.should_training_stop) of trainer.py" in cause.summary


CONNECTOR = "/venv/lib/python3.11/site-packages/lightning/pytorch/trainer/connectors/data_connector.py"


@pytest.mark.parametrize(
    ("text", "told"), [("per_node and local_rank_zero", "rank0-only-collective"), ("self.overridden", "")]
)
def test_a_condition_of_a_library_counts_where_it_asks_for_the_rank(text: str, told: str) -> None:
    fit = ("main", 44, PROGRAM)
    around = source(95, function="prepare_data", file=CONNECTOR, inside=[("if", 94, text), ("with", 93, "barrier")])
    hook = [("Digits.prepare_data", 27, PROGRAM), ("prepare_data", 95, CONNECTOR), fit]
    job = a_job(
        stands(0, "collective", "barrier", hook, (source(27, function="Digits.prepare_data"), around)),
        stands(1, "collective", "barrier", [("prepare_data", 93, CONNECTOR), fit], ()),
    )
    cause = first(job)
    if told:
        assert (cause.cause, cause.ranks, cause.where and cause.where.line) == (told, (0,), 27)
        assert f"which only rank 0 reaches (if {text}, line 94)" in cause.summary
    else:
        assert cause.confidence < 0.65


def test_a_library_that_lets_one_rank_go_first_pairs_its_own_calls() -> None:
    state, fit = "/venv/lib/python3.11/site-packages/accelerate/state.py", ("main", 44, PROGRAM)
    around = source(30, function="_goes_first", file=state, inside=[("if", 29, "not is_main")])
    job = a_job(
        stands(0, "user code", "", [("build", 7, "/venv/lib/python3.11/site-packages/trl/trainer/sft.py"), fit], ()),
        stands(1, "collective", "barrier", [("_goes_first", 30, state), fit], (around,)),
    )
    assert first(job).cause != "rank0-only-collective"


def test_without_the_text_of_the_framework_nothing_is_made_of_its_lines() -> None:
    def without(one: Rank) -> Rank:
        return structs.replace(one, evidence=structs.replace(one.evidence, sources=()))

    job = a_job(
        without(in_trainer(0, "backward", "backward", 52, [])), without(in_trainer(1, "collective", "barrier", 70, []))
    )
    assert all(cause.confidence < 0.5 for cause in reported(job).causes)


def test_a_rank_in_the_handler_of_an_exception_of_its_own() -> None:
    tried = source(30, inside=[("try", 29, "")])
    caught = source(33, inside=[("except", 32, "Exception")])
    job = a_job(
        is_in(0, "backward", "backward", at=30, sources=(tried,)),
        waits(1, "barrier", at=33, sources=(caught,)),
        is_in(2, "backward", "backward", at=30, sources=(tried,)),
    )
    cause = first(job)
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,))
    assert cause.where is not None and cause.where.line == 32
    assert "except Exception, line 32" in cause.summary


def saving(rank: int, *, swallows: bool, tries: tuple[str, int, str] = ("try", 11, ""), handler: int = 14) -> Rank:
    """Below `save()` at line 53, where `promote()` is tried."""
    exits = [("pass", handler, "OSError")] if swallows else []
    sources = (
        source(37, function="promote"),
        source(12, function="save", inside=[tries], exits=exits),
        source(53, inside=[("if", 52, "step % 5 == 4"), EPOCHS]),
    )
    lines = [("promote", 37, PROGRAM), ("save", 12, PROGRAM), ("main", 53, PROGRAM)]
    return stands(rank, "collective", "barrier", lines, sources)


def parted_by_saving(*, swallows: bool) -> HangJob:
    gone = waits(0, "all_reduce", at=50, sources=(source(50, inside=[EPOCHS]),))
    return a_job(gone, saving(1, swallows=swallows), saving(2, swallows=swallows))


def test_an_exception_that_a_function_swallows_has_led_one_past_what_the_others_wait_in() -> None:
    cause = first(parted_by_saving(swallows=True))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (0,))
    assert cause.where is not None and cause.where.line == 14
    otherwise = first(parted_by_saving(swallows=False))
    assert "swallowed" not in otherwise.summary


@pytest.mark.parametrize(("manager", "swallows"), [("contextlib.suppress(OSError)", True), ("torch.no_grad()", False)])
def test_a_suppress_around_a_collective_swallows_too(manager: str, swallows: bool) -> None:
    """suppresses_too_much of tests/lab/hangs."""
    gone = waits(0, "all_reduce", at=50, sources=(source(50, inside=[EPOCHS]),))
    others = [saving(rank, swallows=swallows, tries=("with", 11, manager), handler=11) for rank in (1, 2)]
    assert ("swallowed" in first(a_job(gone, *others)).summary) is swallows


def evaluating(rank: int, condition: str) -> Rank:
    sources = (
        source(17, function="evaluate", inside=[("if", 16, condition)]),
        source(31, inside=[("for", 26, "epoch in range(500)")]),
    )
    return stands(rank, "collective", "barrier", [("evaluate", 17, PROGRAM), ("main", 31, PROGRAM)], sources)


def evaluated(condition: str) -> HangJob:
    counted = [("for", 27, "_ in range(3)"), ("for", 26, "epoch in range(500)")]
    goes_on = waits(1, "all_reduce", at=29, sources=(source(29, inside=counted),))
    return a_job(evaluating(0, condition), goes_on, evaluating(2, condition))


def test_a_condition_in_a_function_behind_a_loop_that_counts() -> None:
    cause = first(evaluated("metric.update_called"))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,))
    assert "if metric.update_called" in cause.summary
    same = reported(evaluated("epoch % 5 == 4"))  # as on all ranks
    assert all(cause.confidence < 0.5 or "epoch % 5" not in cause.summary for cause in same.causes)


def test_conditions_that_only_count_are_the_same_on_every_rank() -> None:
    for condition in ("step % 5 == 4", "step % args.save_every == 0", "epoch >= WARM_UP"):
        assert only_counts(condition), condition
    for condition in ("bar.n % 5 == 0", "step == 3 and self.flag", "metric.update_called", "loss < best", "cut ("):
        assert not only_counts(condition), condition


def test_a_loop_of_as_many_rounds_as_a_rank_has_found() -> None:
    assert OWN_NUMBER.search("_ in range(objects - 1)")
    for text in ("_ in range(1000)", "_ in range(STEPS)", "step in range(steps_per_epoch)", "i in range(len(loader))"):
        assert not OWN_NUMBER.search(text), text


def test_a_rank_that_works_has_not_left_the_loop() -> None:
    """A long sequence: the other has come to what is behind its own loop."""
    busy = is_in(
        1,
        "user code",
        at=41,
        moved=True,
        sources=(source(41, inside=[("while", 40, "True")], exits=[("break", 43, "done()")]),),
    )
    report = reported(a_job(waits(0, "all_reduce", at=50, sources=(source(50),)), busy))
    assert report.state == "slow"
    assert all(cause.cause == "slow-rank-timeout" or cause.confidence < 0.5 for cause in report.causes)


def test_a_command_that_was_started_after_the_look_had_begun() -> None:
    """One compiler after the other: the one that was found has ended."""
    frames = [("Popen._wait", 9, "/usr/lib/python3.11/subprocess.py"), ("main", 52, PROGRAM)]
    rank = stands(1, "user code", "subprocess.run", frames, ())
    for children in ((), (data_loader(77, 4001, state="Z"),)):
        assert reported(a_job(waits(0), structs.replace(rank, data_loaders=children))).state == "slow"
    assert reported(a_job(waits(0), structs.replace(rank, data_loaders=(data_loader(77, 4001),)))).state == "hung"


def test_whose_frames_are_whose() -> None:
    own = Frame("main", PROGRAM, 36)
    proxy = Frame("get", "<string>", 2)
    assert place_of(Thread(id=1, frames=(proxy, own))).user_frame == own  # exec of multiprocessing's managers
    typed = Frame("step", "<string>", 3), Frame("<module>", "<string>", 9)
    assert place_of(Thread(id=1, frames=typed)).user_frame == typed[0]  # python -c
    assert normal("/v/lib/python3.11/site-packages/multiprocess/pool.py") == "/python/multiprocessing/pool.py"
    assert drives_training(TRAINER)
    assert not drives_training("/home/mara/transformers_run/trainer.py")
    for framework in ("transformers/trainer.py", "lightning/pytorch/loops/fit_loop.py"):  # pip install --target
        assert drives_training(f"/home/mara/extra/{framework}")
        assert not is_program(f"/home/mara/extra/{framework}")


def test_a_client_of_a_service_that_waits_for_its_lock_has_not_asked_yet() -> None:
    packages = "/v/lib/python3.11/site-packages"
    lock = Frame("BaseFileLock.acquire", f"{packages}/filelock/_api.py", 342)
    hub, own = Frame("WeakFileLock", f"{packages}/huggingface_hub/utils/_fixes.py", 88), Frame("fetch", PROGRAM, 26)
    waiting = wait_of(Thread(id=1, frames=(lock, hub, own)), own)
    assert waiting is not None and (waiting.kind, waiting.polls) == ("file lock", True)
    asking = wait_of(Thread(id=1, frames=(Frame("read", f"{packages}/huggingface_hub/_http.py", 5), own)), own)
    assert asking is not None and asking.kind == "service"


def test_what_the_kernel_says_of_a_library_without_a_name() -> None:
    """webdataset reads from the pipe of a command; torch waits for other ranks."""
    own = Frame("main", PROGRAM, 36)
    for package, kind in (("webdataset/gopen.py", "child"), ("torch/somewhere.py", "")):
        inner = Frame("Pipe.read", f"/v/lib/python3.11/site-packages/{package}", 81)
        waiting = wait_of(Thread(id=1, waits_in="pipe_read", frames=(inner, own)), own)
        assert (waiting.kind if waiting is not None else "") == kind


@pytest.mark.parametrize(
    ("decorator", "asks"),
    [
        ("rank_zero_only", "rank == 0"),
        ("state.on_last_process", "rank == world_size - 1"),
        ("state.on_process(process_index=2)", "rank == 2"),
    ],
)
def test_a_decorator_that_lets_in_one_rank_only(decorator: str, asks: str) -> None:
    text = f"@{decorator}\ndef show(model):\n    model.compute()\n\n@cache\ndef other():\n    pass\n"
    files = {"/p/train.py": text.encode()}
    around = context(Frame("show", "/p/train.py", 3), files.__getitem__)
    assert around is not None
    assert [(statement.kind, statement.line, statement.asks) for statement in around.enclosing] == [
        ("function", 2, ""),
        ("if", 1, asks),
    ]
    plain = context(Frame("other", "/p/train.py", 7), files.__getitem__)
    assert plain is not None and all(statement.kind != "if" for statement in plain.enclosing)


def scaled(leaves: tuple[str, int, str], *, past: bool = True, guard: str = "", repeated: bool = True) -> HangJob:
    """Two ranks in `step()` at line 23, called in line 40; one waits behind the call, or before it: in the next round,
    where it is a loop."""
    loop = [("for", 32, "step in range(1000)")] if repeated else []
    there = (source(23, function="step", exits=[leaves]), source(40, inside=loop))
    lines = [("step", 23, PROGRAM), ("main", 40, PROGRAM)]
    others = [stands(rank, "collective", "broadcast", lines, there) for rank in (0, 2)]
    line = 41 if past else 35
    own = [*([("if", 34, guard)] if guard else []), *loop]
    return a_job(others[0], waits(1, "all_reduce", at=line, sources=(source(line, inside=own),)), others[1])


def test_a_condition_that_leaves_a_function_early() -> None:
    cause = first(scaled(("return", 22, "not finite(gradients)")))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,))
    assert cause.where is not None and cause.where.line == 22
    for other in (scaled(("return", 24, "not finite(gradients)")), scaled(("return", 22, "step % 5"))):
        assert all("leads past it" not in each.summary for each in reported(other).causes)
    next_round = first(scaled(("return", 22, "not finite(gradients)"), past=False))
    assert (next_round.cause, next_round.ranks) == ("rank-divergent-decision", (1,))
    for more in ({"guard": "found"}, {"repeated": False}):
        earlier = reported(scaled(("return", 22, "not finite(gradients)"), past=False, **more))
        assert all("leads past it" not in each.summary for each in earlier.causes)


def test_who_returns_in_a_handler_has_swallowed_the_exception() -> None:
    loop = [("for", 45, "step in range(1000)")]
    there = (
        source(36, function="load", inside=[("try", 34, "")], exits=[("return", 39, "except ImportError")]),
        source(48, inside=loop),
    )
    lines = [("load", 36, PROGRAM), ("main", 48, PROGRAM)]
    waiting = [stands(rank, "collective", "barrier", lines, there) for rank in (0, 1)]
    cause = first(a_job(*waiting, waits(2, "all_reduce", at=50, sources=(source(50, inside=loop),))))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (2,))
    assert cause.where is not None and cause.where.line == 39


def test_an_exception_that_is_caught_around_a_loop_has_ended_it() -> None:
    loops = [("for", 29, "part in parts"), ("try", 28, ""), ("while", 26, "True")]
    there = (source(30, inside=loops, exits=[("caught", 31, "RuntimeError")]),)
    waiting = [waits(rank, "all_gather", at=30, sources=there) for rank in (0, 1)]
    after = source(35, inside=[("while", 26, "True")])
    causes = reported(a_job(*waiting, waits(2, "all_reduce", at=35, sources=(after,)))).causes
    assert (causes[0].cause, causes[0].ranks) == ("rank-divergent-decision", (2,))
    assert causes[0].where is not None and causes[0].where.line == 31
    assert all(cause.confidence < 0.5 for cause in causes if cause.cause == "uneven-inputs")


def test_a_rank_that_alone_is_still_in_a_loop() -> None:
    steps = [("for", 37, "step in range(1000)")]
    own = [("for", 21, "_ in range(objects - 1)")]
    stays = stands(
        1,
        "collective",
        "all_gather",
        [("forward", 22, PROGRAM), ("main", 41, PROGRAM)],
        (source(22, function="forward", inside=own), source(41, inside=steps)),
    )
    ahead = stands(
        2,
        "collective",
        "all_gather",
        [("forward", 19, PROGRAM), ("main", 41, PROGRAM)],
        (source(19, function="forward"), source(41, inside=steps)),
    )
    cause = first(a_job(waits(0, "broadcast", at=43, sources=(source(43, inside=steps),)), stays, ahead))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,))
    assert "still in the loop at line 21" in cause.summary
