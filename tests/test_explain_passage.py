"""What lies between a rank's last words and the line to which it did not come (read/job/passage.py)."""

import ast
import io
import textwrap
from pathlib import Path

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import Explanation
from gpudoctor.knowledge.on_the_way import CALL, LOOP, SINCE
from gpudoctor.left import program_of
from gpudoctor.read.job.passage import Passage, passage
from gpudoctor.snapshot.evidence import Frame
from tests.test_explain_aborted import C10D, LAUNCHER, asked, end

FILE = "/home/mara/train.py"


def between(body: str, said: str, further: int = 0, above: str = "") -> Passage | None:
    """The body of a loop in `main`, whose all_reduce the others wait in: the line that ends with `# W`."""
    text = textwrap.dedent(above) + "def main():\n    for step in range(9):\n"
    text += textwrap.indent(textwrap.dedent(body), "        ")
    line = next(number for number, own in enumerate(text.splitlines(), start=1) if own.endswith("# W"))
    return passage(ast.parse(text), [Frame("main", FILE, line)], said, further)


def kinds(told: Passage | None) -> tuple[list[str], list[str]]:
    assert told is not None
    waits = [call.kind for call in told if call.kind not in (SINCE, CALL, LOOP)]
    return waits, [call.text for call in told if call.kind == CALL]


SAYS = 'print(f"rank {rank} step {step} begins", flush=True)\n'


@pytest.mark.parametrize(
    ("statement", "waits", "others"),
    [
        ("batch = self.ready.get()", [], ["self.ready.get()"]),
        ("batch = batches_queue.get()", ["queue"], []),
        ("value = settings.get('a', 1)", [], []),
        ("while not path.exists():\n    time.sleep(1)", ["file"], []),
        ("while lock.exists():\n    time.sleep(1)", ["file lock"], []),
        ("with FileLock(name):\n    tokens = tokens + 1", ["file lock"], []),
        ("with self.lock:\n    tokens = tokens + 1", ["lock"], []),
        ("while True:\n    try:\n        ask(port)\n    except OSError:\n        time.sleep(1)", ["tries again"], []),
        ("reply = requests.post(url, json={})", ["service"], []),
        ("subprocess.run(words, check=True)", ["child"], []),
        ("best = store.get(name)", ["store"], []),
        ("time.sleep(0.05)\nx = torch.ones(4).cuda().square()", [], []),
        ("time.sleep(3600)", ["sleep"], []),
        ("time.sleep(0.3 + 0.2 * rank if healthy else 0.05)", [], []),
        ("time.sleep(self.pause)", ["sleep"], []),
        ("sys.exit()", ["leaves"], []),
        ('answer = input("go on? ")\nif answer != "y":\n    raise SystemExit(1)', ["input"], []),
        ("native.sleep(3600)", [], ["native.sleep(3600)"]),  # of ctypes, as holds_gil of tests/lab/hangs
        ("loss = model(batch)", [], ["model(batch)"]),
        ("rows = json.load(open(path))", ["storage", "storage"], []),
        ("dist.barrier(group=beside)", [], ["dist.barrier(group=beside)"]),
        ("x = requests.get(url)\ndist.all_reduce(y)\nz = y.item()", [], []),  # it has come past that one
        ("with path.open('rb') as file:\n    head = file.read(64)", ["storage", "storage"], []),
        ("last = pool.submit(put, weights)", [], []),
        ("tokens = pool.submit(tokenize, text).result()", ["future"], []),
        ("code = subprocess.Popen(words).wait()", ["child"], []),
        ("filler = threading.Thread(target=fill)\nfiller.start()", [], []),
        ("filler = threading.Thread(target=fill)\nfiller.start()\nfiller.join()", ["thread"], []),
        ("server.start()", [], ["server.start()"]),
        ("child = subprocess.Popen(words)\nline = child.stdout.readline()", ["child"], []),
        ("line = self.child.stdout.readline()", ["child"], []),
        ("line = sys.stdin.readline()", ["input"], []),
        ("chance = random.Random(1)\nlength = chance.choice(lengths)", [], []),
        ("length = chance.choice(lengths)", [], ["chance.choice(lengths)"]),
        ("full = threading.Condition()\nwith full:\n    full.wait()", ["thread"], []),
        ("last = pool.submit(put)\nlast.result()", ["future"], []),
        ("x = requests.get(url)\nif late:\n    dist.all_reduce(y)", ["service"], ["dist.all_reduce(y)"]),
    ],
)
def test_what_of_it_waits(statement: str, waits: list[str], others: list[str]) -> None:
    told = between(f"{SAYS}{statement}\ndist.all_reduce(gradient)  # W\n", "rank 1 step 3 begins")
    assert kinds(told) == (waits, others)


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("for row in rows:\n    total += row", 4),
        ("while error > least:\n    error = error / 2", 4),
        ("while not self.ready:\n    pass", 0),  # another thread sets it
        ("total = sum(rows)", 0),
        ("for row in rows:\n    total += row\ndist.all_reduce(total)", 0),
    ],
)
def test_loops_that_compute(statement: str, line: int) -> None:
    told = between(f"{SAYS}{statement}\ndist.all_reduce(gradient)  # W\n", "rank 1 step 3 begins")
    assert told is not None
    assert [loop.line for loop in told if loop.kind == LOOP][:1] == [line][: bool(line)]


WAITS = "subprocess.run(words)\n"
REDUCES = "dist.all_reduce(gradient)  # W\n"


@pytest.mark.parametrize(
    ("body", "further", "waits"),
    [
        (f"{SAYS}{WAITS}{REDUCES}", 0, ["child"]),
        (f"{SAYS}{WAITS}{REDUCES}", 1, []),  # it is past the call of that step
        (f"{SAYS}{REDUCES}{WAITS}", 0, []),
        (f"{SAYS}{REDUCES}{WAITS}", 1, ["child"]),
        (f"{WAITS}{REDUCES}{SAYS}", 0, ["child"]),
        (f"{REDUCES}{WAITS}{SAYS}", 0, []),
        (f"{REDUCES}{WAITS}{SAYS}", 1, ["child"]),
        (f"{SAYS}if step % 4 == 0:\n    {WAITS}{REDUCES}", 0, ["child"]),
        (f"with amp:\n    {SAYS}{WAITS}{REDUCES}", 0, ["child"]),
        (f"{SAYS}with FileLock(name):\n    {REDUCES}", 0, ["file lock"]),
        (f"with FileLock(name):\n    {SAYS}{REDUCES}", 0, []),
        (f"{SAYS}if requests.get(url):\n    {REDUCES}", 0, ["service"]),
    ],
)
def test_which_way_lies_between(body: str, further: int, waits: list[str]) -> None:
    assert kinds(between(body, "rank 1 step 3 begins", further))[0] == waits


@pytest.mark.parametrize(
    ("statement", "said", "fits"),
    [
        (SAYS, "[rank1]: rank 1 step 3 begins", True),
        ('logger.info("epoch %d of %d: loss %.3f", epoch, most, loss)\n', "12:01 INFO epoch 3 of 9: loss 0.125", True),
        ('print("epoch {} done".format(epoch))\n', "epoch 3 done", True),
        ('print("loaded", count, "shards")\n', "loaded 7 shards", True),
        ('print(f"{step}")\n', "3", False),
        (SAYS, "rank 1 validates", False),
        (SAYS + SAYS, "rank 1 step 3 begins", False),  # which of the two it was, is not told
    ],
)
def test_the_statement_that_has_written_it(statement: str, said: str, fits: bool) -> None:
    assert (between(f"{statement}{WAITS}{REDUCES}", said) is not None) is fits


def test_what_is_called_in_functions_of_the_file() -> None:
    above = """
    class Prefetcher:
        def __init__(self):
            self.ready = queue.Queue(maxsize=2)
        def next(self):
            return self.ready.get()
    """
    told = between(f"{SAYS}batch = batches.next().cuda()\n{REDUCES}", "rank 1 step 3 begins", above=above)
    assert kinds(told) == (["queue"], [])


PROGRAM = """
import queue, time
def main():
    ready = queue.Queue()
    for step in range(1000):
        print(f"rank {rank} step {step} begins", flush=True)
        batch = ready.get()
        dist.all_reduce(batch)
main()
"""


def explained(folder: Path, more: str = "", program: str = PROGRAM) -> Explanation:
    script, log = folder / "train.py", folder / "job.log"
    script.write_text(program)
    before = "".join(f"rank {rank} step {step} begins\n" for step in (2, 3) for rank in (0, 1, 2))
    waited = "".join(
        f"[rank{rank}]:[E1123 21:01:54.6{rank} ProcessGroupNCCL.cpp:741] [PG GUID 0(default_pg) Rank {rank}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, "
        "Timeout(ms)=100000) ran for 100008 milliseconds before timing out.\n"
        f"[rank{rank}]:[E1123 21:01:54.6{rank} ProcessGroupNCCL.cpp:785] Stack trace of the failed collective: \n"
        f"#0 all_reduce from {C10D}:3906\n#1 main from {script}:8\n#2 <module> from {script}:9\n\n"
        for rank in (0, 2)
    )
    log.write_text(before + more + waited + asked(0, 7, 6) + asked(1, 6, 6) + asked(2, 7, 6) + end(0) + LAUNCHER)
    return explain([str(log)], stdin=io.BytesIO(), program=program_of([str(log)]))


FALLEN = (
    "Exception in thread prefetch:\nTraceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner\n    self.run()\n'
    '  File "/home/mara/train.py", line 4, in run\n    put(float(record))\n'
    "ValueError: could not convert string to float: '1,0'\n"
    + "".join(f"rank {rank} step {step} begins\n" for step in (4, 5) for rank in (0, 1, 2))
)


@pytest.mark.thorough
def test_the_only_call_on_the_way_that_waits(tmp_path: Path) -> None:
    """prefetch_died of tests/lab/hangs."""
    first = explained(tmp_path).causes[0]
    assert (first.cause, first.ranks, first.confidence) == ("queue-wait", (1,), 0.65)
    assert '"rank 1 step 3 begins", of line 6' in first.summary and "`ready.get()` in line 7" in first.summary
    fallen = explained(tmp_path, FALLEN).causes[0]
    assert 'A thread had ended before, by "ValueError: could not convert' in fallen.summary
    assert fallen.confidence == 0.65


@pytest.mark.thorough
def test_a_prompt_is_of_the_rank_that_did_not_come(tmp_path: Path) -> None:
    """breakpoint_left of tests/lab/hangs: rank 0's next line stands behind it."""
    prompt = "> /home/mara/train.py(7)main()\n(Pdb) [rank0]:[E1123 21:01:54.6 Utils.hpp:1] [PG ID 0 Rank 0] dumps\n"
    first = explained(tmp_path, prompt).causes[0]
    assert (first.cause, first.ranks, first.confidence) == ("stopped-rank", (1,), 0.85)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("call", "cause"),
    [("input('go? ')", "stopped-rank"), ("sys.exit()", "rank-divergent-decision"), ("wait()", "slow-rank-timeout")],
)
def test_what_the_only_call_is(tmp_path: Path, call: str, cause: str) -> None:
    program = PROGRAM.replace("ready.get()", call) + "def wait():\n    time.sleep(PAUSE)\n"
    first = explained(tmp_path, program=program).causes[0]
    assert (first.cause, first.ranks, first.confidence) == (cause, (1,), 0.65)


@pytest.mark.thorough
def test_of_several_calls_none_is_claimed_and_all_are_told(tmp_path: Path) -> None:
    answer = explained(tmp_path, program=PROGRAM.replace("ready.get()", "ready.get() + model(step)"))
    assert answer.causes[0].confidence < 0.5 and answer.unknown
    assert "`ready.get()` in line 7 and `model(step)` in line 7" in answer.unknown


@pytest.mark.thorough
def test_a_loop_and_nothing_that_waits(tmp_path: Path) -> None:
    """sorts_alone of tests/lab/hangs. That the rank lived says what it answers when others' time is up."""
    computes = PROGRAM.replace("batch = ready.get()", "batch = [each for row in rows for each in row]").replace(
        "        dist.all_reduce(batch)", "        for _ in batch: total = total + 1\n        dist.all_reduce(batch)"
    )
    first = explained(tmp_path, program=computes.replace("ready = queue.Queue()\n    ", "")).causes[0]
    assert (first.cause, first.ranks, first.confidence) == ("slow-rank-timeout", (1,), 0.65)
    assert "nothing that waits, and goes through the loop of line 7" in first.summary


@pytest.mark.thorough
def test_a_file_that_is_named_after_a_program_is_no_ranks_own(tmp_path: Path) -> None:
    """download_on_rank0.log of tests/lab/hangs: three ranks write into it."""
    (tmp_path / "a").mkdir()
    log = tmp_path / "a" / "job.log"
    explained(tmp_path / "a")
    named = log.rename(log.with_name("download_on_rank0.log"))
    first = explain([str(named)], stdin=io.BytesIO(), program=program_of([str(named)])).causes[0]
    assert (first.cause, first.ranks) == ("queue-wait", (1,))


def test_a_method_that_waits_for_one_of_the_same_name() -> None:
    """notified_too_early of tests/lab/hangs."""
    above = """
    class Buffer:
        def __init__(self):
            self.full = threading.Condition()

        def wait(self):
            with self.full:
                self.full.wait()

    """
    body = f"{SAYS}buffer = Buffer()\nbuffer.wait()\ndist.all_reduce(gradient)  # W\n"
    assert kinds(between(body, "rank 1 step 3 begins", above=above)) == (["thread"], [])


BEHIND = (
    "loss.backward()  # W\nprint(f'rank {rank} loss {loss}', flush=True)\nif step % 4 == 0:\n    ask(port, beside)\n"
)


def test_what_would_have_been_written_since_was_not_come_to() -> None:
    """Behind its last words it stands before the next ones, and so not in the model; nor has it gone another round."""
    body = SAYS + "loss = model(batch)\n" + BEHIND
    above = "def ask(port, group):\n    dist.all_reduce(port, group=group)\n"
    gloo = "beside = dist.new_group(backend='gloo')\n"
    said = "rank 1 loss 0.5"
    assert kinds(between(body, said, above=gloo + above)) == (["another backend"], [])
    assert between(body, said, 1, above=gloo + above) is None
    # A group of NCCL's is counted by NCCL; of what is not flushed nobody knows how late it is.
    waits, others = kinds(between(body, said, above="beside = dist.new_group([0, 1])\n" + above))
    assert (waits, others) == ([], ["dist.all_reduce(port, group=group)"])
    waits, others = kinds(between(body.replace(", flush=True", ""), said, above=gloo + above))
    assert "model(batch)" in others
