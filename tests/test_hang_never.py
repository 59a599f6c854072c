"""What cannot come that a rank asks for again and again; values of closures and failed tasks, from another process."""

import subprocess
import sys
import textwrap

import pytest
from msgspec import structs

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.hang.crossed import out_of_order
from gpudoctor.hang.job import HangJob, Rank
from gpudoctor.hang.relation import fork_of
from gpudoctor.hang.unalike import unalike
from gpudoctor.read.job.attributes import failure, numbers_of
from gpudoctor.read.job.source import context
from gpudoctor.read.job.tensors import Memory
from gpudoctor.snapshot.evidence import Collective, Enclosing, Frame, FrameVariables, Recorder, SourceContext
from gpudoctor.sure import BEST, LIKELY
from tests.hang_jobs import PROGRAM, a_job, is_in, source, waits

HOLDS = """
    import concurrent.futures, time
    def stopper(limit):
        worse, rate, name = 3, 0.5, "hf_secret"
        def look():
            nonlocal worse
            return worse > limit, rate, name
        return look
    def fails():
        raise OSError("hf_secret")
    look, pool = stopper(7), concurrent.futures.ThreadPoolExecutor(1)
    good, bad = pool.submit(int), pool.submit(fails)
    both = [good, bad]
    concurrent.futures.wait(both)
    print(id(look), id(good), id(bad), id(both), flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.skipif(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)), reason="the layouts that were tried")
def test_closures_and_failed_tasks_are_read_and_no_texts() -> None:
    command = [sys.executable, "-c", textwrap.dedent(HOLDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            look, good, bad, both = map(int, process.stdout.readline().split())
            minor = sys.version_info[1]
            with Memory(process.pid) as memory:
                assert numbers_of(memory, look, minor) == {"worse": "3", "limit": "7", "rate": "0.5"}
                assert [failure(memory, one, minor) for one in (good, bad, both, look, 8)] == [
                    "",
                    "failed: OSError",
                    "failed: OSError",
                    "",
                    "",
                ]
                assert failure(memory, bad, 10) == ""
        finally:
            process.kill()


FLAG = """\
class Cache:
    def fill(self):
        self.rows = read()
        self.warm = True
    def start(self):
        threading.Thread(target=self.fill).start()
    def wait(self):
        while not self.warm:
            time.sleep(0.1)
    def hook(group, bucket):
        if not bucket.buffer().any():
            return done
        return send(bucket)
model.register_comm_hook(None, hook)
"""


def test_what_is_handed_to_threads_and_to_ddp() -> None:
    told = context(Frame("Cache.wait", PROGRAM, 9), lambda _: FLAG.encode())
    assert told is not None
    assert [(each.kind, each.line, each.text) for each in told.by_threads] == [
        ("self.rows", 3, "fill"),
        ("self.warm", 4, "fill"),
    ]
    assert [(each.line, each.text) for each in told.hooks] == [(12, "not bucket.buffer().any()")]


def polling(text: str, *, threads: tuple[Enclosing, ...] = (), **held: str) -> HangJob:
    asks = structs.replace(source(52, inside=[("while", 51, text)]), by_threads=threads)
    values = (FrameVariables(frame=Frame("main", PROGRAM, 52), values=held),)
    rank = is_in(1, "sleep", at=52, sources=(asks,), variables=values, moved=True)
    return a_job(waits(0), rank)


SET = (Enclosing("self.warm", 20, "fill"),)


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        (polling("not self.warm", threads=SET), "thread-wait"),
        (polling("not self.warmer", threads=SET), "slow-rank-timeout"),
        (polling("not all((ready(task) for task in tasks))", tasks="failed: OSError"), "thread-wait"),
        (polling("not all((ready(task) for task in tasks))", others="failed: OSError"), "slow-rank-timeout"),
    ],
)
def test_what_is_asked_for_and_cannot_come(job: HangJob, cause: str) -> None:
    told = conclude_job(job).causes[0]
    assert (told.cause, told.ranks) == (cause, (1,))
    assert told.confidence == LIKELY or cause != "thread-wait"


def _in(number: int, line: int, *outer: tuple[str, int], acting: int = 0) -> Rank:
    inside = source(line, function="evaluate", inside=[("for", 20, "step in range(9)")])
    rank = waits(number, at=line, function="evaluate", sources=(inside,))
    frames = (Frame("evaluate", PROGRAM, line), *(Frame(name, PROGRAM, at) for name, at in outer))
    return structs.replace(rank, place=rank.place._replace(user_frames=frames), acting=acting)


def test_a_thread_begins_with_what_others_call_themselves() -> None:
    fork = fork_of(_in(0, 31, ("main", 47), ("<module>", 51)), _in(2, 33, acting=77))
    assert fork is not None
    assert (fork.one.line, fork.other.line) == (31, 33)


def test_a_hook_that_returns_early_is_told_before_missing_gradients() -> None:
    loop = ("for", 40, "step in range(9)")
    hook = (Enclosing("return", 17, "not any"),)
    behind = structs.replace(source(41, inside=[loop], calls=[("backward", 41, "")]), hooks=hook)
    stays = waits(0, "backward", at=41, sources=(behind,))
    stays = structs.replace(stays, place=stays.place._replace(kind="backward"))
    stays = structs.replace(stays, first_place=stays.place)
    told = conclude_job(a_job(stays, waits(1, "barrier", at=45, sources=(source(45, inside=[loop]),)))).causes[0]
    assert (told.cause, told.where and told.where.line) == ("rank-divergent-decision", 17)
    assert told.confidence >= BEST


def test_what_a_function_that_is_asked_remembers_is_told() -> None:
    def rank(number: int, **held: str) -> Rank:
        values = {name.replace("_", "."): value for name, value in held.items()}
        own = FrameVariables(frame=Frame("main", PROGRAM, 41), values=values)
        return waits(number, variables=(own,))

    ranks = [rank(0, over_worse="0", other_worse="1"), rank(1, over_worse="3", other_worse="2")]
    context = SourceContext(file=PROGRAM, line=41, function="main")
    found = unalike(ranks, Enclosing("if", 40, "over()"), context)
    assert {name: [*held] for name, held in found.items()} == {"over.worse": ["0", "3"]}


def _called(*calls: tuple[str, str, int, bool]) -> Recorder:
    entries = tuple(
        Collective(group=group, sequence=number, operation=operation, state="completed" if ended else "scheduled")
        for group, operation, number, ended in calls
    )
    return Recorder(source="dump", entries=entries)


def test_whose_calls_are_in_another_order_than_those_of_the_others() -> None:
    """Of four ranks, two and two in groups of their own, the last one has left an exchange out."""
    met = ("0", "all_reduce", 5, True)
    through = _called(met, ("3", "all_gather", 5, True), ("0", "all_reduce", 6, False))
    waits_for_it = _called(met, ("4", "all_gather", 5, False))
    left_out = _called(met, ("0", "all_reduce", 6, False))
    dumps = [structs.replace(own, rank=at) for at, own in enumerate((through, through, waits_for_it, left_out))]
    job = a_job(dumps=dumps, world_size=4)
    assert out_of_order(job, "0", [0, 1, 2, 3]) == [3]
    assert out_of_order(job, "0", [2, 3]) == []
    assert out_of_order(job, "9", [0, 1, 2, 3]) == []
