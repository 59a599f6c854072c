"""Dumps of a job that is gone, read beside its program: what the lines say that its ranks had come to."""

import os
import time
from pathlib import Path

import pytest

from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.report import JobReport
from gpudoctor.read.job.sources import Sources
from gpudoctor.snapshot.evidence import Collective, Evidence, Frame, Group, Recorder

pytestmark = pytest.mark.thorough  # files are read in a child
PROGRAM = """\
import torch.distributed as dist


def train(model, rank, callbacks):
    for step in range(1000):
        loss = model(step)
        loss.backward()
        if rank == 0 and step % 3 == 2:
            dist.barrier()
        for callback in callbacks:
            callback.on_step_end(loss)
    dist.all_reduce(loss)


class Average:
    def on_step_end(self, loss):
        dist.all_reduce(loss)


train()
"""
STARTS, GUARDED, CALLBACKS, AVERAGE, LEFT, MAIN = 6, 9, 11, 17, 12, 20
GRADIENTS = {"operation": "all_reduce", "input_sizes": ((132,),), "dtypes": ("float32",)}
WRITTEN = 1_760_000_000.0


def stack(file: Path, *lines: int) -> tuple[Frame, ...]:
    names = {AVERAGE: "on_step_end", MAIN: "<module>"}
    return tuple(Frame(names.get(line, "train"), str(file), line) for line in (*lines, MAIN))


def dump(rank: int, file: Path, *last: int, operation: str = "all_reduce", rounds: int = 2) -> Recorder:
    """Of a rank whose gradients were summed twice, or more; `last`: the lines of what it called then, none of a further
    time."""
    group = Group(key="0", description="default_pg", ranks=(0, 1, 2))
    start = Collective(group="0", sequence=1, operation="broadcast", state="completed", frames=stack(file, STARTS))
    sums = [Collective(group="0", sequence=number, state="completed", **GRADIENTS) for number in range(2, 2 + rounds)]  # type: ignore[arg-type]
    if last:
        third = Collective(
            group="0", sequence=2 + rounds, operation=operation, input_sizes=((1,),), frames=stack(file, *last)
        )
    else:
        third = Collective(group="0", sequence=2 + rounds, **GRADIENTS)  # type: ignore[arg-type]
    return Recorder(source=f"r{rank}", rank=rank, written_at=WRITTEN, groups=(group,), entries=(start, *sums, third))


def concluded(*dumps: Recorder) -> JobReport:
    sources = Sources()
    try:
        program = sources.left(dumps, time.monotonic() + 60)
    finally:
        sources.end()
    (job,) = conclude(Evidence(dumps=dumps, sources=program)).jobs
    return job


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    os.utime(file, (WRITTEN - 60, WRITTEN - 60))
    return file


def test_a_collective_below_a_condition_on_the_rank(program: Path) -> None:
    first = concluded(dump(0, program, GUARDED, operation="barrier"), dump(1, program), dump(2, program)).causes[0]
    assert (first.cause, first.ranks, first.where and first.where.line) == ("rank0-only-collective", (0,), GUARDED - 1)
    assert first.confidence >= 0.85 and "pid" not in "".join(seen.source for seen in first.evidence)


@pytest.mark.parametrize("rounds", [2, 40])
def test_a_rank_that_is_through_with_the_loop(program: Path, rounds: int) -> None:
    """Also where hooks alone have started what ranks have called for long: the last line that they called tells."""
    program.write_text(PROGRAM.replace("range(1000)", "loader"))
    os.utime(program, (WRITTEN - 60, WRITTEN - 60))
    first = concluded(*(dump(rank, program, *(LEFT,) * (rank == 2), rounds=rounds) for rank in range(3))).causes[0]
    assert (first.cause, first.ranks) == ("uneven-inputs", (2,)) and first.confidence >= 0.65


def test_a_call_that_one_rank_alone_has_ever_made(program: Path) -> None:
    """No line asks for the rank: its list of callbacks is another one."""
    first = concluded(dump(0, program, AVERAGE, CALLBACKS), dump(1, program), dump(2, program)).causes[0]
    assert (first.cause, first.ranks) == ("rank0-only-collective", (0,)) and first.confidence == 0.65
    first = concluded(dump(0, program), dump(1, program), dump(2, program, AVERAGE, CALLBACKS)).causes[0]
    assert (first.cause, first.ranks) == ("rank-divergent-decision", (2,))


def test_a_program_that_has_changed_since_tells_nothing(program: Path) -> None:
    os.utime(program, (WRITTEN + 60, WRITTEN + 60))
    dumps = (dump(0, program, GUARDED, operation="barrier"), dump(1, program), dump(2, program))
    assert concluded(*dumps).causes[0].confidence < 0.5


def test_a_line_of_another_function_is_of_another_program(program: Path) -> None:
    program.write_text(PROGRAM.replace("def train", "def fit"))
    os.utime(program, (WRITTEN - 60, WRITTEN - 60))
    dumps = (dump(0, program, GUARDED, operation="barrier"), dump(1, program), dump(2, program))
    assert concluded(*dumps).causes[0].confidence < 0.5


def of_one_line(rank: int, *sizes: int, operation: str = "all_to_all") -> Recorder:
    """Of a rank that gives 12 rows each time at one line, and takes so many; the last has not ended."""
    frames = (Frame("exchange", "/home/mara/moe.py", 26), Frame("<module>", "/home/mara/moe.py", 32))
    entries = tuple(
        Collective(
            group="0",
            sequence=number,
            operation=operation,
            state="completed" if number < len(sizes) else "scheduled",
            input_sizes=((12, 64),),
            output_sizes=((size, 64),),
            dtypes=("float32",),
            frames=frames,
        )
        for number, size in enumerate(sizes, start=1)
    )
    group = Group(key="0", description="default_pg", ranks=(0, 1, 2))
    return Recorder(source=f"r{rank}", rank=rank, written_at=WRITTEN, groups=(group,), entries=entries)


def test_what_is_taken_differs_and_what_is_given_does_not() -> None:
    """experts_of_another_size: a size that has followed itself there is no sign of a call that was left out."""
    job = concluded(of_one_line(0, 12, 12, 12, 12), of_one_line(1, 12, 12, 12, 11), of_one_line(2, 12, 12, 12, 12))

    assert (job.causes[0].cause, job.causes[0].ranks) == ("shape-mismatch", (1,))
    assert "rank 1 float32[11x64] to receive" in job.causes[0].summary


def test_a_call_without_lines_beside_one_that_has_them(program: Path) -> None:
    """saves_by_clock: a sum of DDP's met a barrier of the program's, so that one has gone another way."""
    without = dump(2, program, rounds=2)
    without = Recorder(source="r2", rank=2, written_at=WRITTEN, groups=without.groups, entries=without.entries[1:])
    program.unlink()
    job = concluded(*(dump(rank, program, LEFT, operation="barrier") for rank in (0, 1)), without)

    assert job.causes[0].cause == "rank-divergent-decision"
    assert job.causes[0].confidence < 0.5


BEHIND = """\
import queue
import torch.distributed as dist

tasks = queue.Queue()


def train(rank):
    for step in range(1000):
        dist.all_reduce(loss)
        batch = {call}
        dist.barrier()


train(0)
"""


def of_barrier(rank: int, file: Path, comes: bool) -> Recorder:
    """Ranks that have summed, and come to the barrier then, or not."""

    def at(line: int) -> tuple[Frame, ...]:
        return (Frame("train", str(file), line), Frame("<module>", str(file), 14))

    group = Group(key="0", description="default_pg", ranks=(0, 1, 2))
    done = Collective(group="0", sequence=1, operation="all_reduce", state="completed", frames=at(9))
    barrier = Collective(group="0", sequence=2, operation="barrier", frames=at(11))
    entries = (done, barrier) if comes else (done,)
    return Recorder(source=f"r{rank}", rank=rank, written_at=WRITTEN, backend="nccl", groups=(group,), entries=entries)


@pytest.mark.parametrize(
    ("call", "cause"), [("tasks.get()", "queue-wait"), ("made(step)", "rank-away"), ("sum(losses)", "rank-away")]
)
def test_what_lies_behind_the_last_collective_of_a_rank_that_did_not_come(
    tmp_path: Path, call: str, cause: str
) -> None:
    """Where one call alone may wait there, it is told; else only that the rank is away."""
    file = tmp_path / "train.py"
    file.write_text(BEHIND.format(call=call))
    os.utime(file, (WRITTEN - 60, WRITTEN - 60))
    dumps = [of_barrier(rank, file, comes=rank != 1) for rank in range(3)]
    first = concluded(*dumps).causes[0]
    assert (first.cause, first.ranks) == (cause, (1,))
    if cause == "queue-wait":
        assert first.where and first.where.line == 10 and "`tasks.get()` in line 10" in first.summary
