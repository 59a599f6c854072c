"""What a rank has to do with its GPU (hang/gpus.py, hang/recorded.py), and jobs on NCCL without a recorder."""

from typing import Any

import pytest
from msgspec.structs import replace

from gpudoctor.hang.assemble import assemble
from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.gpus import gpus_of, is_quiet, uses_gpu, waits_in_driver
from gpudoctor.hang.job import Rank
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.rank_conditions import asks_for
from gpudoctor.snapshot.evidence import (
    Collective,
    Evidence,
    Frame,
    GpuUse,
    Group,
    NodeEvidence,
    Process,
    ProcessEvidence,
    Recorder,
    Sample,
    SourceContext,
    Thread,
)
from gpudoctor.snapshot.ras import Ras, RasCommunicator, RasRank
from tests.hang_jobs import PROGRAM, a_job, is_in, place_at, serves, sleeps, source, waits

DRIVER = {"libcuda.so.580.95.05": "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05"}
LINE = place_at("user code", at=30)
WAITING = GpuUse(index=0, utilization_percent=100, memory_utilization_percent=0)
DONE = Collective(group="0", sequence=1, operation="barrier", state="completed")
IDLE = GpuUse(index=0, utilization_percent=0, memory_utilization_percent=0)


def a_process(
    *,
    ran: float = 0.2,
    delayed: float | None = 2.3,
    gil: bool = False,
    others: tuple[float, ...] = (),
    late: float = 0.0,
    **more: Any,
) -> ProcessEvidence:
    """One that stood at a line in two looks; `ran` and `delayed`: seconds of its main thread in between, `others` those
    of threads that have the program's name, which have waited for a processor for `late`."""

    def look(at: float, part: int) -> Sample:
        held_up = None if delayed is None else 9.0 + delayed * part
        main = Thread(
            id=7,
            state="R",
            cpu_seconds=4.0 + ran * part,
            delayed_seconds=held_up,
            switches=10,
            owns_gil=gil,
            frames=(Frame("main", PROGRAM, 30), Frame("<module>", PROGRAM, 60)),
        )
        beside = (
            Thread(id=8 + n, name="python", cpu_seconds=1.0 + seconds * part, delayed_seconds=late * part)
            for n, seconds in enumerate(others)
        )
        return Sample(at=at, state="R", threads=(main, *beside), stacks_by="py-spy")

    return ProcessEvidence(process=Process(pid=7, parent=1, started=1), samples=(look(0.0, 0), look(2.5, 1)), **more)


@pytest.mark.parametrize(
    ("process", "gpus", "waits_there"),
    [
        (a_process(), (), True),
        (a_process(ran=2.5, delayed=0.0), (WAITING,), True),
        (a_process(ran=2.4, delayed=None), (), True),
        (a_process(gil=True), (), False),  # a loop of the program
        (a_process(ran=0.1, delayed=0.0), (), False),  # it sleeps
        (a_process(others=(2.5, 0.0)), (WAITING,), True),  # NCCL's thread that polls the network has no name of its own
        (a_process(others=(2.5, 2.5)), (), False),  # an operator on several processors
        (a_process(others=(0.2, 0.2), late=2.3), (), False),  # the same, where others have the processors
        (a_process(others=(0.004, 0.005), late=2.48), (), True),  # these poll, and give theirs away
        (a_process(), (IDLE,), False),
        (
            a_process(recorder=Recorder(source="x", entries=(DONE,))),
            (),
            False,
        ),
    ],
)
def test_a_thread_tells_that_it_waits_for_its_gpu(
    process: ProcessEvidence, gpus: tuple[GpuUse, ...], waits_there: bool
) -> None:
    assert waits_in_driver(process, LINE, LINE, gpus) is waits_there
    assert not waits_in_driver(process, place_at("user code", at=29), LINE, gpus)


def test_a_driver_is_known_by_its_file() -> None:
    node = NodeEvidence()
    assert uses_gpu(a_process(libraries=DRIVER), node)
    assert not uses_gpu(a_process(libraries={"libcudart.so.13": "/x"}), node)
    assert not uses_gpu(a_process(libraries=DRIVER, recorder=Recorder(source="x", backend="gloo")), node)


def test_a_gpu_whose_processes_are_not_named_is_that_of_the_rank_s_number() -> None:
    node = NodeEvidence(gpus=(GpuUse(index=0), GpuUse(index=1), GpuUse(index=2)))
    process = a_process()
    assert [gpu.index for gpu in gpus_of(process, node, 1)] == [1]
    chosen = replace(process, process=replace(process.process, environment={"CUDA_VISIBLE_DEVICES": "2,0"}))
    assert [gpu.index for gpu in gpus_of(chosen, node, 0)] == [2]
    named = replace(node, gpus=(GpuUse(index=0, pids=(8,)), GpuUse(index=1, pids=(7,))))
    assert [gpu.index for gpu in gpus_of(process, named, 0)] == [1]


def test_a_recorder_is_quiet_that_has_begun_nothing_and_is_not_through() -> None:
    entry = Collective(group="0", sequence=1, operation="all_reduce", created_ns=100 * 10**9)
    recorder = Recorder(source="x", dumped_at=103.0, entries=(entry,))
    assert is_quiet(recorder, 2.5)
    assert not is_quiet(recorder, 10.0)
    assert not is_quiet(replace(recorder, entries=(replace(entry, state="completed"),)), 2.5)
    assert not is_quiet(replace(recorder, dumped_at=0.0), 2.5)


@pytest.mark.parametrize(("memory", "verdict"), [(0, "stuck"), (40, "unknown")])
def test_ranks_whose_gpus_compute_do_not_stand(memory: int, verdict: str) -> None:
    """A long step without a collective: nothing moves in Python, and NCCL has counted nothing."""
    counts = tuple(RasRank(rank=rank, counts={"AllReduce": 7}) for rank in (0, 1))
    poll = Ras(at=0.0, source="x", communicators=(RasCommunicator(id="a", size=2, ranks=counts),))
    spin: dict[str, Any] = {"state": "R", "waits_in": "", "cpu": (3.0, 5.5), "moved": True, "libraries": DRIVER}
    gpus = tuple(GpuUse(index=index, utilization_percent=100, memory_utilization_percent=memory) for index in (0, 1))
    ranks = [is_in(rank, "cuda sync", "item", **spin) for rank in (0, 1)]
    job = a_job(*ranks, nodes={"a": {"ras": (poll, poll), "gpus": gpus}})
    assert progress_of(job).verdict == verdict
    assert conclude_job(job).state == ("hung" if verdict == "stuck" else "running")


@pytest.mark.parametrize(
    ("condition", "let_in"),
    [
        ("rank == 0", (True, False)),
        ("step % 2 == 1 and (full or rank == 0)", (True, False)),
        ("not (rank == 0)", (False, True)),
        ("step % 2", (None, None)),
        ("is_main_process()", (True, False)),
        ("rank ==", (None, None)),
    ],
)
def test_what_a_condition_asks_of_the_rank(condition: str, let_in: tuple[bool | None, bool | None]) -> None:
    assert (asks_for(condition, 0), asks_for(condition, 1)) == let_in


def on_gpus(*entries: tuple[int, str, int], here: int = 50) -> Evidence:
    """Ranks that wait for their GPUs at one line; of each the number, operation and line of what it is in."""
    text = source(here, inside=[("for", 20, "step in range(10)"), ("function", 10, "main")])
    processes = []
    for rank, (number, operation, line) in enumerate(entries):
        frame = Frame("main", PROGRAM, line)
        entry = Collective(group="0", sequence=number, operation=operation, frames=(frame,), created_ns=100 * 10**9)
        own = source(line, inside=[("for", 20, "step in range(10)")], exits=[("continue", 22, "empty")])
        process = a_process(
            libraries=DRIVER,
            sources=(text, own),
            recorder=Recorder(
                source="pipe",
                rank=rank,
                backend="nccl",
                dumped_at=110.0,
                groups=(Group(key="0", ranks=tuple(range(len(entries))), last_enqueued=number),),
                entries=(entry,),
            ),
        )
        environment = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(entries))}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
        own_samples = tuple(
            replace(
                sample,
                threads=(
                    replace(sample.threads[0], id=70 + rank, frames=(Frame("main", PROGRAM, here),)),
                    *sample.threads[1:],
                ),
            )
            for sample in process.samples
        )
        told = Process(
            pid=70 + rank, parent=1, started=7, name="python", environment=environment, environment_read=True
        )
        processes.append(replace(process, process=told, samples=own_samples))
    return Evidence(nodes=(NodeEvidence(name="a", hostname="a", processes=tuple(processes)),))


def test_a_rank_is_where_its_gpu_is() -> None:
    """Python stands in the same `loss.item()` on all ranks; a `continue` has taken one past a collective."""
    (job,) = assemble(on_gpus((4, "all_reduce", 30), (4, "broadcast", 40), (4, "all_reduce", 30)))
    assert [rank.place.user_frame.line for rank in job.ranks if rank.place.user_frame] == [30, 40, 30]
    first = conclude_job(job).causes[0]
    assert (first.cause, first.ranks) == ("rank-divergent-decision", (1,))


def test_sizes_that_differ_at_two_lines_are_no_shape_mismatch() -> None:
    (job,) = assemble(on_gpus((4, "all_reduce", 30), (4, "all_reduce", 40)))
    assert all(cause.cause != "shape-mismatch" or cause.confidence < 0.5 for cause in conclude_job(job).causes)


def counted(
    context: SourceContext,
    *counts: dict[str, int],
    other: tuple[dict[str, int], ...] = (),
    more: tuple[SourceContext, ...] = (),
) -> Any:
    """A job that waits on its GPUs at one line, of which RAS tells how much each rank has launched in each group."""
    groups = tuple(
        RasCommunicator(
            id=str(number),
            size=len(own),
            ranks=tuple(RasRank(rank=rank, counts=each) for rank, each in enumerate(own)),
        )
        for number, own in enumerate(filter(None, (counts, other)))
    )
    poll = Ras(at=0.0, source="x", communicators=groups)
    spin: dict[str, Any] = {"state": "R", "waits_in": "", "cpu": (3.0, 5.5), "moved": True, "libraries": DRIVER}
    members = [
        is_in(rank, "cuda sync", "item", at=context.line, sources=(context, *more), **spin)
        for rank in range(len(counts))
    ]
    return conclude_job(a_job(*members, nodes={"a": {"ras": (poll, poll)}})).causes[0]


LOOP = [("for", 20, "step in range(10)"), ("function", 10, "main")]


def test_a_rank_that_has_launched_other_collectives_went_past_one() -> None:
    context = source(50, inside=LOOP, exits=[("pass", 28, "Exception")], calls=[("all_reduce", 27, "")])
    first = counted(context, {"AllReduce": 5}, {"AllReduce": 5, "Broadcast": 1}, {"AllReduce": 5})
    assert (first.cause, first.ranks, first.where and first.where.line) == ("rank-divergent-decision", (1,), 28)


def test_a_collective_under_a_condition_on_the_rank_is_named_where_the_counts_bear_it_out() -> None:
    context = source(50, inside=LOOP, calls=[("all_gather", 30, "rank == 0"), ("all_reduce", 40, "")])
    first = counted(context, {"AllReduce": 5, "AllGather": 1}, {"AllReduce": 6})
    assert (first.cause, first.ranks, first.confidence) == ("rank0-only-collective", (0,), 0.85)
    assert counted(context, {"AllReduce": 5}, {"AllReduce": 5}).confidence < 0.5


@pytest.mark.parametrize(
    ("calls", "around", "counts", "other", "cause"),
    [
        # All have come to one line: with another order alone, as many would have been launched.
        ([("all_gather", 33, "step % 3 == 2")], (), ("AllGather", 3, 4), (), "rank-divergent-decision"),
        ([("all_reduce", 31, "")], (), ("AllReduce", 4, 5), (5, 4), "collective-order-mismatch"),
        ([("recv", 30, "rank < 2"), ("all_reduce", 51, "")], (), ("AllReduce", 3, 4), (), "p2p-order"),
        ([("backward", 30, ""), ("all_reduce", 33, "")], (), ("AllReduce", 7, 8), (), "unused-parameters"),
        (
            [("backward", 30, ""), ("all_reduce", 33, "")],
            (("with", 29, "model.no_sync() if last else nullcontext()"),),
            ("AllReduce", 7, 8),
            (),
            "rank-divergent-decision",
        ),
    ],
)  # fmt: skip
def test_what_counts_of_one_rank_decide(
    calls: list[tuple[str, int, str]],
    around: tuple[tuple[str, int, str], ...],
    counts: tuple[str, int, int],
    other: tuple[int, ...],
    cause: str,
) -> None:
    """unlike_evaluation, groups_in_turn, one_microbatch_more and accumulates_alone of tests/lab/hangs."""
    kind, own, theirs = counts
    first = counted(
        source(50, inside=LOOP, calls=calls),
        *({kind: number} for number in (theirs, own, theirs)),
        other=tuple({kind: number} for number in (other[1], other[0], other[1])) if other else (),
        more=(source(30, inside=[*around, *LOOP]),),
    )
    assert (first.cause, first.ranks) == (cause, (1,))
    assert first.confidence >= 0.5


def test_counts_beside_what_one_rank_calls_alone_decide_nothing() -> None:
    """group_of_rank0 of tests/lab/hangs: its own call, in another group, keeps it from the common ones."""
    context = source(50, inside=LOOP, calls=[("all_reduce", 30, "rank == 0"), ("all_reduce", 40, "")])
    assert counted(context, {"AllReduce": 4}, {"AllReduce": 5}, {"AllReduce": 5}).confidence < 0.5


def test_ranks_that_only_send_and_receive_are_asked_for_their_order_first() -> None:
    context = source(50, inside=LOOP, calls=[("recv", 30, ""), ("send", 31, "")])
    first = counted(context, {}, {})
    assert (first.cause, first.ranks) == ("p2p-order", (0, 1))
    assert first.confidence < 0.5


def test_what_a_program_calls_save_checkpoint_need_not_be_a_collective() -> None:
    context = source(50, inside=LOOP, calls=[("save_checkpoint", 30, "rank == 0"), ("all_reduce", 40, "")])
    assert counted(context, {"AllReduce": 5}, {"AllReduce": 5}).cause != "rank0-only-collective"


def test_a_rank_that_is_gone_is_told_beside_one_that_computes() -> None:
    job = a_job(is_in(0, "user code", moved=True), missing=(1,), launchers={}, master_address="127.0.0.1")
    report = conclude_job(job)
    assert report.state != "running"
    assert report.causes[0].cause == "rank-died"


def test_a_rank_in_a_queue_that_others_wait_for_in_training_is_no_server() -> None:
    stands: dict[str, Any] = {"waits_in": "futex_do_wait", "moved": False}
    job = a_job(waits(0, "all_reduce"), is_in(1, "user code", "queue.get", **stands))
    assert conclude_job(job).causes[0].confidence >= 0.5
    server = a_job(waits(0, "broadcast"), serves(1, **stands))
    assert (conclude_job(server).state, conclude_job(server).causes) == ("slow", ())


def test_sleep_beside_waits_stays_what_it_was() -> None:
    assert conclude_job(a_job(waits(0), sleeps(1))).causes[0].cause == "slow-rank-timeout"


@pytest.mark.parametrize(
    ("text", "libraries", "told"),
    [
        ("dist.all_reduce(x, group=evaluation)", DRIVER, True),
        ("dist.all_reduce(x)", DRIVER, False),
        ("dist.all_reduce(x, group=evaluation)", {}, False),
    ],
)
def test_a_group_that_one_rank_left_out_blocks_the_first_call_on_the_next(
    text: str, libraries: dict[str, str], told: bool
) -> None:
    """group_of_some of tests/lab/hangs on NCCL, whose new_group waits for nobody."""
    context = source(41, inside=LOOP, calls=[("new_group", 12, "rank in members"), ("new_group", 13, "")], text=text)
    first = conclude_job(a_job(*(waits(rank, sources=(context,), libraries=libraries) for rank in range(3)))).causes[0]
    assert (first.cause == "collective-order-mismatch" and first.confidence >= 0.5) is told


def starting(rank: int, backend: str, text: str = "", guard: str = "") -> Rank:
    """Rank 1 of falls_back_to_cpu, where it sets a backend up, or a rank behind that."""
    threads = {"gloo": "gloo_tcp_loop", "nccl": "pt_nccl_watchdg"}
    own = Thread(id=70, name=threads[backend], state="S")
    inside = [("else", 19, guard)] if guard else []
    if backend == "nccl":
        return waits(rank, at=29, more_threads=(own,))
    return is_in(rank, "communicator init", "init_process_group", at=23, more_threads=(own,),
                 sources=(source(23, inside=inside, text=text),))  # fmt: skip


@pytest.mark.parametrize(
    ("text", "guard", "sure"),
    [
        ('dist.init_process_group("gloo")', "device.type == 'cuda'", True),
        ('dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")', "", True),
        ("dist.init_process_group(arguments.backend)", "", False),
    ],
)
def test_who_sets_up_gloo_where_the_others_have_nccl_sees_no_gpu(text: str, guard: str, sure: bool) -> None:
    alone = starting(1, "gloo", text, guard)
    causes = {
        cause.cause: cause for cause in conclude_job(a_job(starting(0, "nccl"), alone, starting(2, "nccl"))).causes
    }
    found = causes["no-gpu-visible"]
    assert (found.ranks, found.confidence >= 0.85) == ((1,), sure)
    together = conclude_job(a_job(*(starting(rank, "gloo", text, guard) for rank in range(3))))
    assert "no-gpu-visible" not in {cause.cause for cause in together.causes}, "all take gloo"
