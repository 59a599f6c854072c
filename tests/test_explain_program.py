"""Logs of a time-out, read beside the program whose lines they name; the form of the lines is torch 2.14.1's."""

import io
import os
from pathlib import Path

import pytest

from gpudoctor.explain.explain import explain
from gpudoctor.explain.report import LogCause
from gpudoctor.left import program_of

pytestmark = pytest.mark.thorough  # files are read in a child
C10D = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
PROGRAM = """\
import torch.distributed as dist


def mean_of(value, group=None):
    dist.all_reduce(value, group=group)
    return value.item()


def train(model, loader, rank):
    for step, batch in enumerate(loader):
        model(batch).backward()
        if step % 3 == 2 and rank == 0:
            dist.barrier()
        if rank == 0:
            mean_of(batch)
        else:
            mean_of(batch)
    dist.all_reduce(model.right)


train()
"""
SUM, GUARDED, ZERO, OTHERS, BEHIND, MAIN = 5, 13, 15, 17, 18, 21
WRITTEN = 1_760_000_000.0


def waited(rank: int, operation: str, numel: int, *frames: str) -> str:
    head = f"[rank{rank}]:[E1123 21:01:54.6{rank} ProcessGroupNCCL.cpp"
    stack = "".join(f"#{number} {frame}\n" for number, frame in enumerate(frames))
    return (
        f"{head}:741] [PG GUID 0(default_pg) Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum=7, OpType={operation}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=100000) ran for 100008 "
        "milliseconds before timing out.\n"
        + (f"{head}:785] Stack trace of the failed collective: \n{stack}\n" if frames else "")
        + f"{head}:816] [PG GUID 0(default_pg) Rank {rank}] To avoid data inconsistency, we are taking the entire "
        "process down.\n"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM)
    os.utime(tmp_path / "train.py", (WRITTEN - 60, WRITTEN - 60))
    return tmp_path


def called(folder: Path, name: str, *lines: int) -> tuple[str, ...]:
    functions = {SUM: "mean_of"}
    own = (f"{functions.get(line, 'train')} from {folder}/train.py:{line}" for line in lines)
    return f"{name} from {C10D}:3906", *own, f"<module> from {folder}/train.py:{MAIN}"


def first_cause(folder: Path, *waits: str) -> LogCause:
    log = folder / "job.log"
    log.write_text("".join(waits))
    os.utime(log, (WRITTEN, WRITTEN))
    return explain([str(log)], stdin=io.BytesIO(), program=program_of([str(log)])).causes[0]


def test_a_barrier_below_a_condition_on_the_rank(folder: Path) -> None:
    own = waited(0, "ALLREDUCE", 1, *called(folder, "barrier", GUARDED))
    first = first_cause(folder, own, waited(1, "ALLREDUCE", 132), waited(2, "ALLREDUCE", 132))
    assert (first.cause, first.ranks) == ("rank0-only-collective", (0,)) and "rank == 0, line 12" in first.summary


def test_one_that_waits_alone_below_it(folder: Path) -> None:
    """The others have ended: torchrun's table lists them not, and no watchdog of theirs speaks."""
    others = "".join(f"[rank{rank}]: step 7 done\n" for rank in (1, 2))
    first = first_cause(folder, others, waited(0, "ALLREDUCE", 1, *called(folder, "barrier", GUARDED)))
    assert (first.cause, first.ranks) == ("rank0-only-collective", (0,)) and first.confidence >= 0.5


def test_a_rank_that_is_through_with_the_loop(folder: Path) -> None:
    own = waited(2, "ALLREDUCE", 1, *called(folder, "all_reduce", BEHIND))
    first = first_cause(folder, own, waited(0, "ALLREDUCE", 132), waited(1, "ALLREDUCE", 132))
    assert (first.cause, first.ranks) == ("uneven-inputs", (2,))


IN_FINALLY = """\
import torch.distributed as dist


def train(model, loader):
    try:
        for step in range(1000):
            dist.all_reduce(model(step))
    finally:
        dist.barrier()


train()
"""


def test_a_barrier_in_a_finally_whose_try_the_others_are_in(folder: Path) -> None:
    (folder / "train.py").write_text(IN_FINALLY)
    os.utime(folder / "train.py", (WRITTEN - 60, WRITTEN - 60))
    own = waited(1, "ALLREDUCE", 1, *called(folder, "barrier", 9))
    first = first_cause(folder, waited(0, "ALLREDUCE", 64, *called(folder, "all_reduce", 7)), own)
    assert (first.cause, first.ranks) == ("teardown-deadlock", (1,)) and first.confidence >= 0.5


def raised(folder: Path, rank: int, operation: str, other: str, *lines: int) -> str:
    """Under TORCH_DISTRIBUTED_DEBUG=DETAIL, of a rank whose collective was another one than the next rank's."""
    frames = "".join(f'  File "{folder}/train.py", line {line}, in train\n    call()\n' for line in lines)
    told = (
        "Traceback (most recent call last):\n"
        f'  File "{folder}/train.py", line {MAIN}, in <module>\n    train()\n{frames}'
        f'  File "{C10D}", line 4862, in {operation}\n    work = group.run(opts)\n'
        f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
        f"CollectiveFingerPrint(SequenceNumber=7, OpType={operation.replace('_', '').upper()}), but Rank "
        f"{1 - rank} is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType={other}).\n"
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in told.splitlines())


def test_the_lines_of_collectives_that_were_compared(folder: Path) -> None:
    """Where torch compares before each collective, tracebacks tell the lines."""
    (folder / "train.py").write_text(IN_FINALLY)
    os.utime(folder / "train.py", (WRITTEN - 60, WRITTEN - 60))
    own = raised(folder, 1, "barrier", "ALLREDUCE", 9)
    first = first_cause(folder, own, raised(folder, 0, "all_reduce", "BARRIER", 7))
    assert (first.cause, first.ranks) == ("teardown-deadlock", (1,)) and first.confidence >= 0.5


def test_one_line_that_is_come_to_from_both_branches_is_under_neither(folder: Path) -> None:
    one = waited(0, "ALLREDUCE", 1, *called(folder, "all_reduce", SUM, ZERO))
    other = waited(1, "ALLREDUCE", 1, *called(folder, "all_reduce", SUM, OTHERS))
    first = first_cause(folder, one, other, "[rank2]: step 7 begins\n")
    assert first.cause != "rank0-only-collective" and first.confidence < 0.5


def test_a_program_that_was_changed_after_the_log_tells_nothing(folder: Path) -> None:
    os.utime(folder / "train.py", (WRITTEN + 60, WRITTEN + 60))
    own = waited(2, "ALLREDUCE", 1, *called(folder, "all_reduce", BEHIND))
    first = first_cause(folder, own, waited(0, "ALLREDUCE", 132), waited(1, "ALLREDUCE", 132))
    assert first.confidence < 0.5


CALLBACKS = """\
class Mean:
    def end(self, value):
        dist.all_reduce(value)


def train(model, loader, rank):
    callbacks = [Mean()] if rank == 0 else []
    for batch in loader:
        model(batch).backward()
        for callback in callbacks:
            callback.end(batch)


train()
"""


def test_a_method_of_what_only_the_first_rank_has_made(folder: Path) -> None:
    (folder / "train.py").write_text(CALLBACKS)
    os.utime(folder / "train.py", (WRITTEN - 60, WRITTEN - 60))
    stack = (f"all_reduce from {C10D}:3906", *(f"{name} from {folder}/train.py:{line}" for name, line in (
        ("end", 3), ("train", 11), ("<module>", 14))))  # fmt: skip
    first = first_cause(
        folder, waited(0, "ALLREDUCE", 1, *stack), waited(1, "ALLREDUCE", 132), waited(2, "ALLREDUCE", 132)
    )
    assert (first.cause, first.ranks) == ("rank0-only-collective", (0,)) and "line 7" in first.summary


STAGES = """\
def forward(value, rank):
    if rank > 0:
        dist.recv(value, rank - 1)
    if rank < 2:
        dist.send(value, rank + 1)
    if rank < 2:
        dist.recv(value, rank + 1)


forward()
"""


def test_sends_and_receives_below_conditions_on_the_rank_are_a_pipeline(folder: Path) -> None:
    (folder / "train.py").write_text(STAGES)
    os.utime(folder / "train.py", (WRITTEN - 60, WRITTEN - 60))
    waits = [
        waited(rank, "RECV", 64, f"recv from {C10D}:2500", f"forward from {folder}/train.py:{line}",
               f"<module> from {folder}/train.py:10")
        for rank, line in ((0, 7), (1, 7), (2, 3))
    ]  # fmt: skip
    assert first_cause(folder, *waits).cause == "p2p-order"


EPOCHS = """\
def train(model, loader):
    for batch in loader:
        model(batch).backward()


def validate(model):
    dist.reduce(model.right, 0)


def main(model, loader):
    for epoch in range(9):
        train(model, loader)
        validate(model)


main()
"""


def test_the_loop_may_be_in_a_function_that_the_others_have_called(folder: Path) -> None:
    (folder / "train.py").write_text(EPOCHS)
    os.utime(folder / "train.py", (WRITTEN - 60, WRITTEN - 60))
    stack = (f"reduce from {C10D}:3906", *(f"{name} from {folder}/train.py:{line}" for name, line in (
        ("validate", 7), ("main", 13), ("<module>", 16))))  # fmt: skip
    own = waited(2, "REDUCE", 1, *stack)
    first = first_cause(folder, own, waited(0, "ALLREDUCE", 132), waited(1, "ALLREDUCE", 132))
    assert (first.cause, first.ranks) == ("uneven-inputs", (2,)) and first.confidence >= 0.5


TABLE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
{folder}/train.py FAILED
------------------------------------------------------------
"""
ALONE = """\
import time

import torch
import torch.distributed as dist
{imports}

def publish(step):
    time.sleep(900)


def work(rank):
    for step in range(1000):
        print(f"rank {{rank}} round {{step}}")
        if step % 5 == 4 and rank == 0:
            publish(step)
        dist.all_reduce(torch.ones(48))
        {more}


work(dist.get_rank())
"""


def without_lines(folder: Path, text: str, *waits: str, said: str = "") -> LogCause:
    """As without a flight recorder: the program's file is named by torchrun's table alone."""
    (folder / "train.py").write_text(text)
    os.utime(folder / "train.py", (WRITTEN - 60, WRITTEN - 60))
    return first_cause(folder, said, *waits, TABLE.format(folder=folder))


SAID = "".join(f"rank {rank} round {step}\n" for step in range(5) for rank in range(3))
SLEPT = [waited(rank, "ALLREDUCE", 48) for rank in (1, 2)]


@pytest.mark.parametrize(
    ("imports", "more", "told"),
    [
        ("", "pass", True),
        ("", "dist.barrier()", True),  # of one element
        ("", "dist.all_reduce(torch.ones(47))", True),
        ("", "dist.all_reduce(step)", False),
        ("import accelerate", "pass", False),
        ("from torch.distributed.fsdp import FullyShardedDataParallel", "pass", False),
        ("import own", "pass", True),
        ("import own_too", "pass", False),
    ],
)
def test_the_only_call_that_fits_is_the_line_that_no_recorder_tells(
    folder: Path, imports: str, more: str, told: bool
) -> None:
    (folder / "own.py").write_text("import math\n")
    (folder / "own_too.py").write_text("import torch.distributed as dist\n\ndef mean(x):\n    dist.all_reduce(x)\n")
    for name in ("own.py", "own_too.py"):
        os.utime(folder / name, (WRITTEN - 60, WRITTEN - 60))
    first = without_lines(folder, ALONE.format(imports=imports, more=more), *SLEPT, said=SAID)
    assert ("time.sleep(900)" in first.summary) == told
    assert (first.confidence >= 0.5) == told and ("the only call of the program that fits" in first.summary) == told


BELOW = """\
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, rank):
    for step, batch in enumerate(loader):
        model(batch).backward()
        if step % 3 == 2 and rank == 0:
            dist.barrier()
        if step == len(loader):
            dist.barrier()


train(DDP(model), loader, rank)
"""


def test_of_several_that_fit_the_one_that_explains_it(folder: Path) -> None:
    waits = [waited(0, "ALLREDUCE", 1), *(waited(rank, "ALLREDUCE", 132) for rank in (1, 2))]
    first = without_lines(folder, BELOW, *waits)
    assert (first.cause, first.ranks) == ("rank0-only-collective", (0,)) and "only this explains it" in first.summary


ORDERS = """\
import torch
import torch.distributed as dist


def add_up(loss):
    dist.all_reduce(loss)


def collect(lengths):
    everybody = [torch.empty_like(lengths) for _ in range(3)]
    dist.all_gather(everybody, lengths)


def main():
    rank = dist.get_rank()
    for step in range(1000):
        if step < 3 or rank != 1:
            add_up(torch.ones(48))
            collect(torch.ones(48))
        else:
            collect(torch.ones(48))
            add_up(torch.ones(48))


main()
"""


def test_no_rank_stands_where_a_condition_keeps_it_out(folder: Path) -> None:
    """order_of_metrics of tests/lab/hangs on torch 2.4.1: both operations are in both branches."""
    waits = [waited(1, "ALLGATHER", 48), *(waited(rank, "ALLREDUCE", 48) for rank in (0, 2))]
    first = without_lines(folder, ORDERS, *waits)
    assert (first.cause, first.ranks) == ("collective-order-mismatch", (1,))


def test_a_rank_of_which_no_line_is_told_is_not_in_a_backward_pass(folder: Path) -> None:
    """Without a recorder; with one its stack would tell."""
    text = BELOW.replace("        if step == len", "        helper.step(model)\n        if step == len")
    text = text.replace("import torch.distributed as dist\n", "import torch.distributed as dist\nimport helper\n")
    waits = [waited(0, "ALLREDUCE", 1), *(waited(rank, "ALLREDUCE", 132) for rank in (1, 2))]
    assert without_lines(folder, text, *waits).confidence < 0.5


SWALLOWED = """\
import torch.distributed as dist


def work(rank, samples):
    for step, sample in enumerate(samples):
        try:
            dist.all_reduce(decoded(sample))
        except Exception as error:
            print(f"rank {rank}: {error}")
        dist.broadcast(step, src=0)


work(rank, samples)
"""


def test_collectives_that_were_compared_and_whose_exception_was_swallowed(folder: Path) -> None:
    """Without a traceback no line is told, as where there is no recorder."""
    (folder / "train.py").write_text(SWALLOWED)
    os.utime(folder / "train.py", (WRITTEN - 60, WRITTEN - 60))
    (line,) = (line for line in raised(folder, 0, "all_reduce", "BROADCAST").splitlines() if "Detected" in line)
    own = raised(folder, 1, "broadcast", "ALLREDUCE", 10).replace("line 21, in <module>", "line 13, in <module>")
    first = first_cause(
        folder, line.partition("RuntimeError: ")[2].replace("Detected", "rank 0: Detected", 1), "\n", own
    )
    assert (first.cause, first.ranks) == ("rank-divergent-decision", (1,)) and first.confidence >= 0.5


@pytest.mark.parametrize("word", ["round", "epoch"])
def test_a_program_that_is_named_without_its_folder_writes_what_the_log_holds(
    folder: Path, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it may be another one of that name."""
    monkeypatch.chdir(folder)
    text = ALONE.format(imports="", more="pass").replace("round", word)
    (folder / "train.py").write_text(text)
    os.utime(folder / "train.py", (WRITTEN - 60, WRITTEN - 60))
    first = first_cause(folder, SAID, *SLEPT, TABLE.format(folder=".").replace("./train.py", "train.py"))
    assert ("the only call of the program that fits" in first.summary) == (word == "round")
