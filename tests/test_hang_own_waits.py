"""What a rank waits for that is in no collective, on hand-made jobs; and conditions on the rank, whatever their names.

The live jobs behind these are in tests/lab/hangs/users; here is what each rule must not take for its own.
"""

import ast
from collections.abc import Sequence

import pytest
from msgspec import structs

from gpudoctor.causes import CAUSES
from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.doing import COUNTER, acting_thread
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.live import may_pass
from gpudoctor.hang.report import JobReport
from gpudoctor.knowledge.places import Kind
from gpudoctor.read.job.by_rank import ByRank
from gpudoctor.read.job.source import context
from gpudoctor.snapshot.evidence import Enclosing, Frame, ProcessEvidence, Sample, Socket, SourceContext, Thread
from tests.hang_jobs import PROGRAM, a_job, data_loader, is_in, place_at, source, stack, waits

LIBRARY = "/usr/lib/python3.11"


def standing(
    *frames: tuple[str, str],
    text: str = "",
    operation: str = "",
    waits_in: str = "futex_do_wait",
) -> Rank:
    """Rank 1 in the program's line 52, below calls of the standard library, the innermost first."""
    rank = is_in(1, "user code", operation, at=52, waits_in=waits_in, sources=(source(52, text=text),))
    return with_stack(rank, [Frame(function, f"{LIBRARY}/{file}", 10) for file, function in frames])


def with_stack(rank: Rank, frames: Sequence[Frame]) -> Rank:
    samples = []
    for sample in rank.evidence.samples:
        main, *others = sample.threads
        own = structs.replace(main, frames=(*frames, *main.frames))
        samples.append(structs.replace(sample, threads=(own, *others)))
    return structs.replace(rank, evidence=structs.replace(rank.evidence, samples=tuple(samples)))


def reported(job: HangJob) -> JobReport:
    unread: list[object] = []
    report = conclude_job(job, unread)  # type: ignore[arg-type]
    assert unread == [], "a rule failed"
    return report


THREADING = ("threading.py", "Condition.wait")
PUTS = ("multiprocessing/queues.py", "Queue.put")
WAITS = {
    "a queue that is full": (standing(THREADING, ("queue.py", "Queue.put")), "queue-wait"),
    "an event": (standing(THREADING, ("threading.py", "Event.wait")), "thread-wait"),
    "a future": (standing(THREADING, ("concurrent/futures/_base.py", "Future.result")), "thread-wait"),
    "a command": (
        structs.replace(
            standing(("subprocess.py", "Popen._wait"), waits_in="do_wait"), data_loaders=(data_loader(77, 4001),)
        ),
        "child-process-wait",
    ),
    "an answer": (
        standing(("socket.py", "SocketIO.readinto"), ("http/client.py", "begin"), ("urllib/request.py", "urlopen")),
        "service-no-answer",
    ),
    "an event loop": (standing(("selectors.py", "select"), ("asyncio/runners.py", "run")), "asyncio-wait"),
    "a signal": (standing(text="signal.pause()", waits_in="__do_sys_pause"), "signal-wait"),
    "a lock": (standing(text="with self.lock"), "lock-held"),
    "a lock of a library, entered again": (
        standing(("threading.py", "Condition.__enter__"), PUTS, ("logging/__init__.py", "Logger.debug"), PUTS),
        "lock-held",
    ),
    "a lock of a log": (
        standing(("logging/__init__.py", "Handler.acquire"), ("logging/__init__.py", "handle")),
        "lock-held",
    ),
    "a lock on a file": (standing(text="fcntl.flock(f, 2)", waits_in="flock_lock_inode_wait"), "file-lock-wait"),
    "a pipe that is full": (standing(text="out.write(line)", waits_in="pipe_write"), "child-process-wait"),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_a_rank_waits_for_names_the_cause(name: str) -> None:
    """Not that it works elsewhere, nor what it has passed: the others stand in backward."""
    rank, cause = WAITS[name]
    others: Kind
    for others in ("collective", "backward"):
        report = reported(a_job(is_in(0, others, "all_reduce", at=41), rank))
        assert report.state == "hung"
        assert (report.causes[0].cause, report.causes[0].ranks) == (cause, (1,)), report.causes
        assert report.causes[0].where is not None and report.causes[0].where.line == 52
        assert "unused-parameters" not in {each.cause for each in report.causes}
        assert may_pass(report) is CAUSES[cause].may_pass


def test_a_child_that_works_is_no_hang() -> None:
    """The evaluation of a checkpoint in a process of its own."""
    rank, _ = WAITS["a command"]
    child = data_loader(77, 4001, cpu=(1.0, 3.2))
    report = reported(a_job(waits(0), structs.replace(rank, data_loaders=(child,))))
    assert report.state == "slow"
    assert all(cause.confidence < 0.5 or CAUSES[cause.cause].slows for cause in report.causes)


def test_a_pool_whose_workers_all_wait_has_lost_a_task() -> None:
    frames = [
        Frame("get", f"{LIBRARY}/multiprocessing/queues.py", 103),
        Frame("worker", f"{LIBRARY}/multiprocessing/pool.py", 114),
    ]
    old, young = data_loader(77, 4001, frames=frames), data_loader(78, 4001, frames=frames)
    young = structs.replace(young, process=structs.replace(young.process, started=old.process.started + 900))
    rank = standing(THREADING, ("multiprocessing/pool.py", "Pool.map"))
    report = reported(a_job(waits(0), structs.replace(rank, data_loaders=(old, young))))
    assert report.causes[0].cause == "pool-worker-died"
    works = data_loader(79, 4001, frames=[Frame("score", PROGRAM, 14), *frames])
    report = reported(a_job(waits(0), structs.replace(rank, data_loaders=(old, works))))
    assert report.causes[0].cause == "child-process-wait"


def test_a_fork_that_inherited_a_lock() -> None:
    child = ProcessEvidence(
        process=structs.replace(waits(1).evidence.process, pid=77, parent=4001),
        samples=tuple(
            Sample(
                at=at, state="S", threads=(structs.replace(thread, id=77, frames=(Frame("evaluate", PROGRAM, 20),)),)
            )
            for at, thread in (
                (0.0, waits(1).evidence.samples[0].threads[0]),
                (2.5, waits(1).evidence.samples[0].threads[0]),
            )
        ),
        sources=(source(20, text="with CONFIG_LOCK"),),
    )
    rank = standing(
        ("multiprocessing/popen_fork.py", "wait"), ("multiprocessing/process.py", "join"), waits_in="do_wait"
    )
    report = reported(a_job(waits(0), structs.replace(rank, data_loaders=(child,))))
    assert report.causes[0].cause == "fork-held-lock"
    by_hand = structs.replace(standing(text="os.waitpid(pid, 0)", waits_in="do_wait"), data_loaders=(child,))
    assert reported(a_job(waits(0), by_hand)).causes[0].cause == "fork-held-lock"


def test_an_idle_server_is_no_hang() -> None:
    """Its first rank listens in an event loop, and the others wait for what it passes on, in another branch."""
    door = Socket(state="LISTEN", local="127.0.0.1", local_port=8000)
    loop = (("selectors.py", "select"), ("asyncio/base_events.py", "run_forever"), ("asyncio/runners.py", "run"))
    first = standing(*loop, operation="runners.run")
    first = structs.replace(first, evidence=structs.replace(first.evidence, sockets=(door,)))
    other = waits(0, "broadcast", at=60, sources=(source(60, inside=[("else", 50, "rank == 1")]),))
    report = reported(a_job(other, first))
    assert report.state == "slow"
    assert not [cause for cause in report.causes if cause.confidence >= 0.5]
    assert "waits for work from outside" in report.undecided


# ---------------------------------------------------------------- conditions on the rank

CONDITIONS = {
    "master = me == 0\nme = dist.get_rank()": ("master and step > 2", "rank == 0 and something"),
    "def chief():\n    return not dist.is_initialized() or dist.get_rank() == 0": ("chief()", "something or rank == 0"),
    "cfg = Config(who=dist.get_rank())": ("cfg.who in cfg.loggers", "rank in something"),
    "import os": ("not int(os.environ.get('LOCAL_RANK', '0'))", "not local_rank"),
    "r = dist.get_rank(group)": ("r == 0", "rank_in_group == 0"),
    "me = dist.get_rank()\nme = 3": ("me == 0", ""),
    "loss = 1.0 if dist.get_rank() else 2.0": ("loss > 1.5", ""),
    "batch = read(dist.get_rank())": ("batch is None", ""),
}


@pytest.mark.parametrize("program", CONDITIONS)
def test_a_condition_on_the_rank_is_known_by_what_its_names_were_given(program: str) -> None:
    condition, asks = CONDITIONS[program]
    assert ByRank(ast.parse(program)).asks(ast.parse(condition, mode="eval").body) == asks


def test_names_that_are_given_each_other_cost_no_time() -> None:
    program = "a = dist.get_rank()\n" + "a = a or a or a or a or a\n" * 300
    assert ByRank(ast.parse(program)).asks(ast.parse("a", mode="eval").body) == ""


def around(program: str, line: int) -> SourceContext:
    found = context(Frame("main", "train.py", line), lambda name: program.encode())
    assert found is not None
    return found


def test_conditions_within_a_line_and_before_it() -> None:
    program = (
        "me = dist.get_rank()\n"
        "def main():\n"
        "    me == 0 and dist.barrier()\n"
        "    ROLES.get(me, follow)(step)\n"
        "def log():\n"
        "    if me:\n"
        "        return\n"
        "    dist.all_reduce(loss)\n"
    )
    assert around(program, 3).enclosing[0] == Enclosing("if", 3, "me == 0", "rank == 0")
    assert around(program, 4).enclosing[0].asks == "rank_decides"
    assert around(program, 8).exits == (Enclosing("return", 7, "me", "rank"),)


def test_those_who_return_early_do_not_come_to_the_collective() -> None:
    own = structs.replace(source(41, function="log"), exits=(Enclosing("return", 39, "self.global_rank", "rank"),))
    rank = waits(0, at=41, function="log", sources=(own,))
    report = reported(a_job(rank, waits(1, "broadcast", at=60), waits(2, "broadcast", at=60)))
    assert (report.causes[0].cause, report.causes[0].ranks) == ("rank0-only-collective", (0,))


def test_a_collective_in_a_signal_handler_is_not_under_the_condition_that_sent_it() -> None:
    handler = structs.replace(source(20, function="save"), handlers=("save",))
    below = source(52, inside=[("if", 51, "rank == 1")])
    rank = waits(1, "barrier", at=20, function="save", sources=(handler, below))
    report = reported(a_job(waits(0), rank, waits(2)))
    assert report.causes[0].cause == "signal-handler-wait"
    assert "rank0-only-collective" not in {cause.cause for cause in report.causes}


def test_a_server_under_a_condition_on_the_rank_that_polls_is_no_hang() -> None:
    """HTTPServer.serve_forever on rank 1 wakes twice a second; an engine waits for what a thread of its takes in."""
    polls = standing(
        ("selectors.py", "select"), ("socketserver.py", "serve_forever"), operation="socketserver.serve_forever"
    )
    guarded = structs.replace(polls.evidence, sources=(source(52, inside=[("if", 51, "rank == 1")]),))
    polls = structs.replace(polls, evidence=guarded, moved=True)
    engine = standing(THREADING, ("threading.py", "Condition.wait_for"), operation="threading.wait_for")
    door = Thread(id=9, state="S", frames=(Frame("serve_forever", f"{LIBRARY}/socketserver.py", 232),))
    samples = tuple(structs.replace(each, threads=(*each.threads, door)) for each in engine.evidence.samples)
    engine = structs.replace(engine, evidence=structs.replace(engine.evidence, samples=samples))
    for rank in (polls, engine):
        report = reported(a_job(waits(0, "broadcast_object_list"), rank))
        assert report.state == "slow"
        assert not [cause for cause in report.causes if cause.confidence >= 0.5]
        hangs = reported(a_job(waits(0, "all_reduce"), rank))
        assert hangs.state == ("hung" if rank is engine else hangs.state)


def test_a_rank_is_where_the_thread_is_that_it_waits_for() -> None:
    """An engine behind asyncio: its main thread has nothing to do while a thread of its executor is in a collective."""
    rank = standing(("selectors.py", "EpollSelector.select"), ("asyncio/base_events.py", "BaseEventLoop.run_forever"))
    assert acting_thread(rank.evidence) == rank.evidence.pid
    works = Thread(id=77, frames=stack(place_at("collective", "all_gather_object", at=22, function="step")))
    samples = tuple(structs.replace(each, threads=(*each.threads, works)) for each in rank.evidence.samples)
    assert acting_thread(structs.replace(rank.evidence, samples=samples)) == 77


def test_the_thread_that_counts_under_run_is_no_progress_of_the_program() -> None:
    """It wakes every other second in each armed rank; where gpudoctor is a checkout its file looks like the user's.
    What faulthandler tells of a thread has neither its name nor the kernel's number."""
    rank = standing(("threading.py", "Condition.wait"), ("concurrent/futures/_base.py", "as_completed"))
    line = Frame("_count", "/home/mara/gpudoctor/armed.py", 140)
    by_faulthandler = [
        (Thread(id=0x7F00_0000_1000, frames=(line,)), Thread(id=78, name=COUNTER, switches=number)) for number in (5, 6)
    ]
    for counts in (
        [(Thread(id=78, name=f"{COUNTER}s", frames=(line,), switches=number),) for number in (5, 6)],
        by_faulthandler,
    ):
        samples = tuple(
            structs.replace(sample, threads=(*sample.threads, *threads))
            for sample, threads in zip(rank.evidence.samples, counts, strict=True)
        )
        armed = structs.replace(rank, evidence=structs.replace(rank.evidence, samples=samples))
        assert reported(a_job(waits(0, "all_reduce"), armed)).state == "hung"


def test_what_data_loaders_do_decides_though_their_rank_waits_at_a_queue() -> None:
    """loader_deadlock: it wakes every five seconds, so in half of all looks it does not."""
    worker = data_loader(77, 4001, frames=[Frame("Images.__getitem__", PROGRAM, 22)])
    rank = is_in(1, "data", "DataLoader", at=45, waits_in="do_poll", data_loaders=(worker,))
    rank = with_stack(rank, [Frame("Queue.get", f"{LIBRARY}/multiprocessing/queues.py", 113)])
    assert reported(a_job(waits(0), rank)).causes[0].cause == "dataloader-fork-deadlock"
