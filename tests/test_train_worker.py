"""The rank program of train-test (workers/train.py): every way passes here, and its rules hold without torch's help."""

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.nccl.rank_messages import Begun, Finished, Member, Phase, Trained, decoder
from tests.collective_ranks import WORKERS, alive, decoded, torchruns_folder, wait_until_gone
from tests.lab import warm
from tests.training_ranks import command, launch, run, trained

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memfd, PR_SET_PDEATHSIG")
pytestmark = [LINUX, pytest.mark.timeout(500)]
PRECISIONS = ("fp32", "bf16", "fp16")


@pytest.fixture(autouse=True)
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers know each other by bare name."""
    monkeypatch.syspath_prepend(str(WORKERS))


def load(name: str) -> Any:
    return importlib.import_module(name)


# ---------------------------------------------------------------- real ranks


def test_the_ways_of_torchrun_pass_in_every_precision() -> None:
    """Of three ranks; of two in tests/test_cli_train_test.py."""
    ranks = 3
    ways = ("single", "ddp", "no_sync", "fsdp")
    status, said = run(launch(ranks, [(way, one) for way in ways for one in PRECISIONS], world_size=ranks))
    assert status == 0, said[-3:]
    found = trained(said)
    assert [(one.way, one.precision) for one in found] == [(way, one) for way in ways for one in PRECISIONS]
    for one in found:
        assert one.outcome == "passed", one
        assert one.ranks == (1 if one.way == "single" else ranks)
        assert one.devices == ("cpu",) * one.ranks
        assert one.step_seconds is not None and one.step_seconds > 0
        assert len(one.peak_bytes) == 1
        assert one.loss is not None and one.reference_loss is not None
        near = {"fp32": 1e-5, "bf16": 0.1, "fp16": 0.02}[one.precision]
        assert one.loss == pytest.approx(one.reference_loss, rel=near)
    # Same samples and steps: what the ways come to is comparable, whatever they are.
    losses = {one.way: one.loss for one in found if one.precision == "fp32"}
    assert losses["ddp"] == pytest.approx(losses["no_sync"], rel=1e-4)
    assert losses["ddp"] == pytest.approx(losses["fsdp"], rel=1e-4)
    assert sum(isinstance(one, Begun) for one in said) == sum(isinstance(one, Finished) for one in said) == ranks
    assert [one.rank for one in said if isinstance(one, Member)] == list(range(ranks))
    phases = [one.phase for one in said if isinstance(one, Phase) and one.rank == 1]
    assert "ddp bf16 step 3: backward" in phases
    assert phases.index("rendezvous") < phases.index("ddp fp32 wrapper") < phases.index("leaving")


def test_the_ways_of_one_process_pass_or_say_why_not() -> None:
    cells = [
        ("split", "fp32"),
        ("split", "bf16"),
        ("spawn", "fp16"),
        ("dp", "fp32"),
        ("ddp2", "fp32"),
    ]
    status, said = run(launch(1, cells, world_size=3, steps=6))
    assert status == 0, said[-3:]
    split, split_bf16, spawn, dp, unknown = trained(said)
    for one in (split, split_bf16):
        assert one.outcome == "passed", one
        assert one.devices == ("cpu", "cpu") and "stand-in" in one.notes[0]
    assert spawn.outcome == "passed", spawn
    assert spawn.ranks == 3 and spawn.devices == ("cpu",) * 3
    assert dp.outcome == "not applicable" and "two GPUs" in dp.reason
    assert unknown.outcome == "not applicable" and "ddp2" in unknown.reason
    assert any(one.phase == "spawn fp16 step 3: backward" for one in said if isinstance(one, Phase))


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (3, 2)])
def test_few_steps_and_small_batches_are_no_fault(steps: int, batch: int) -> None:
    ways = ("ddp", "no_sync", "fsdp")
    status, said = run(launch(2, [(way, "fp16") for way in ways], steps=steps, batch=batch))
    assert status == 0, said[-3:]
    assert [one.outcome for one in trained(said)] == ["passed"] * len(ways), trained(said)


def test_the_reference_goes_on_from_the_ranks_parameters() -> None:
    """At every tenth step, or rounding would add up in a long run."""
    cells = [("ddp", "fp32"), ("no_sync", "bf16"), ("fsdp", "bf16"), ("ddp", "fp16")]
    status, said = run(launch(2, cells, steps=25, seed=3))
    assert status == 0, said[-3:]
    assert [one.outcome for one in trained(said)] == ["passed"] * len(cells), trained(said)


def test_one_rank_of_torchrun_passes_too() -> None:
    status, said = run(launch(1, [("ddp", "fp32"), ("fsdp", "bf16")], steps=4), truly=True)
    assert status == 0, said[-3:]
    assert [one.outcome for one in trained(said)] == ["passed", "passed"], trained(said)


class Running:
    """A launch of one spawn cell, up to where its children train."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = warm.start(
            command(launch(1, [("spawn", "fp32"), ("single", "fp32")], steps=200_000)),
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        self.rank = 0
        for line in self.process.stdout:
            for message in decoded(line):
                if isinstance(message, Begun):
                    self.rank = message.pid
                if isinstance(message, Phase) and "step 3: backward" in message.phase:
                    self.children = children_of(self.rank)
                    return
        raise AssertionError("the ranks ended before")


def children_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def is_child_process(pid: int) -> bool:
    return "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()


def test_a_killed_child_of_spawn_is_named_and_the_others_end() -> None:
    with torchruns_folder() as own:
        running = Running(own)
        try:
            spawned = sorted(pid for pid in running.children if is_child_process(pid))
            assert len(spawned) == 2
            os.kill(spawned[1], signal.SIGKILL)
            assert running.process.stdout is not None
            said: list[Any] = []
            for line in running.process.stdout:
                said += [message for message in decoded(line) if isinstance(message, Trained)]
                if said:
                    break
            assert said[0].outcome == "failed"
            assert "process 1 of mp.spawn, in 'step" in said[0].reason and "ended by signal 9" in said[0].reason
            wait_until_gone(spawned)
        finally:
            running.process.kill()
            running.process.communicate()
        wait_until_gone([running.rank, *running.children])


@pytest.mark.parametrize("who", ["the rank", "torchrun"])
def test_nothing_is_left_when_the_parent_is_killed(who: str) -> None:
    with torchruns_folder() as own:
        running = Running(own)
        os.kill(running.rank if who == "the rank" else running.process.pid, signal.SIGKILL)
        running.process.communicate()
        wait_until_gone([running.process.pid, running.rank, *running.children])
        assert not any(alive(pid) for pid in running.children)


# ---------------------------------------------------------------- rules, without ranks


@pytest.mark.parametrize(
    ("digests", "differences", "wrong"),
    [
        ([7, 7, 8], [0.0, 0.0, 0.5], [2]),
        ([7, 8], [0.0, 0.5], [1]),  # two ranks: the single-process run decides
        ([7, 8], [0.5, 0.0], [0]),
        ([7, 8], [0.0, 0.0], []),  # both near enough: nobody can tell
        ([7, 8], [0.5, 0.5], []),
        ([7, 7, 8], [0.0, 0.0, 0.0], [2]),  # too little for the tolerance: the majority decides
        ([7, 7, 8], [0.5, 0.5, 0.5], [2]),
        ([7, 8, 9], [0.5, 0.5, 0.5], []),
        ([7, 7], [float("nan"), 0.0], [0]),
        ([], [], []),
    ],
)
def test_who_is_wrong(digests: list[int], differences: list[float], wrong: list[int]) -> None:
    assert load("train_blame").odd_ones(digests, differences, 0.01) == wrong


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1)), max_size=9))
def test_never_all_are_blamed(rows: list[tuple[int, float]]) -> None:
    wrong = load("train_blame").odd_ones([row[0] for row in rows], [row[1] for row in rows], 0.5)
    assert len(wrong) < max(1, len(rows)) and wrong == sorted(set(wrong))


def test_digests_see_where_a_lone_sign_stands() -> None:
    import torch

    signs = (torch.tensor(numbers, dtype=torch.float64) for numbers in ([-0.0, 0.0], [0.0, -0.0]))
    assert len({load("train_digest").digest(torch, each) for each in signs}) == 2


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=64),
    st.data(),
    st.sampled_from(["float32", "bfloat16", "float64"]),
)
def test_digests_tell_tensors_apart(numbers: list[float], data: st.DataObject, dtype: str) -> None:
    import torch

    digest = load("train_digest").digest
    tensor = torch.tensor(numbers, dtype=torch.float64).to(getattr(torch, dtype))
    assert digest(torch, tensor) == digest(torch, tensor.clone())
    place = data.draw(st.integers(0, len(numbers) - 1))
    other = tensor.clone()
    other[place] = 3.25 if other[place] != 3.25 else 4.5
    assert digest(torch, other) != digest(torch, tensor)
    swapped = tensor.flip(0)
    assert (digest(torch, swapped) == digest(torch, tensor)) == torch.equal(
        swapped.view(torch.uint8), tensor.view(torch.uint8)
    )


class Alone:
    """A team whose ranks' numbers are given."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows
        self.ranks = len(rows)

    def gather_integers(self, numbers: list[int]) -> list[list[int]]:
        return self.rows


def took(batches: list[list[list[int]]], count: int, expected: Any = None) -> str:
    """The kind of fault that these batches (by step, of all ranks) are; empty for none. Two steps an epoch."""
    partition = load("train_samples").Partition(Alone(batches[0]), count, len(batches[0][0]), expected)
    try:
        for step, rows in enumerate(batches):
            partition.team.rows = rows
            partition.took(step, step // 2, rows[0])
            if step % 2:
                partition.end_epoch(step)
    except load("train_way").FaultFound as found:
        return str(found.fault["kind"])
    return ""


def test_partitions_of_samples() -> None:
    half = [list(range(4)), list(range(4, 8))]
    rest = [list(range(8, 12)), list(range(12, 16))]
    assert took([half, rest, rest, half], 16) == ""
    assert took([half, rest, half, rest], 16) == "sampler epoch"
    assert took([half, rest, [half[0], rest[0]], [half[1], rest[1]]], 16) == "sampler epoch"
    assert took([half, half], 16) == "sampler overlap"
    assert took([[half[0], half[0]]], 16) == "sampler overlap"
    assert took([[[0, 1, 1, 2], rest[0]]], 16) == "sampler overlap"
    assert took([half, rest], 17) == "sampler loss"
    assert took([half, [rest[0], [12, 13, 14, -1]]], 16) == "sampler loss"
    assert took([half, rest, half, rest], 16, lambda epoch: [0, 4, 1, 5, 2, 6, 3, 7, *range(8, 16)]) == ""


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.randoms())
def test_a_right_sampler_is_no_fault(ranks: int, batch: int, random: Any) -> None:
    count = ranks * batch * 2
    orders = [random.sample(range(count), count) for _ in range(2)]
    batches = []
    for order in orders:
        own = [order[rank::ranks] for rank in range(ranks)]
        batches += [[one[:batch] for one in own], [one[batch:] for one in own]]
    # The same beginning by chance is what the sampler's own order explains.
    assert took(batches, count, lambda epoch: orders[epoch]) == ""


def test_messages_of_large_worlds_fit_a_line() -> None:
    fields = {
        "way": "ddp",
        "precision": "fp32",
        "outcome": "failed",
        "reason": "ü" * 5000,
        "fault": {"kind": "gradient", "seen": "ß" * 5000, "wanted": "x" * 5000},
        "devices": ["cuda:0"] * 4096,
        "peak_bytes": {f"node-{number} cuda:0": number for number in range(4096)},
        "notes": ["n" * 1000] * 6,
    }
    line = msgspec.json.encode(load("train").fitting(fields))
    assert len(line) <= 3900
    message = decoder.decode(line[:-1] + b',"type":"trained"}')
    assert isinstance(message, Trained) and message.fault is not None and message.fault.kind == "gradient"


def test_precisions_that_this_torch_lacks_say_so() -> None:
    precision = load("train_precision")

    class Torch:
        """torch 2.2 on a CPU."""

        __version__ = "2.2.2"
        float16 = "float16"

        class amp: ...

    class Device:
        type = "cpu"

    assert "torch.amp.GradScaler came with 2.3" in precision.lacking(Torch, "fp16", Device)
    assert precision.lacking(Torch, "fp32", Device) == ""
    assert "fp8" in precision.lacking(Torch, "fp8", Device)


def test_which_process_of_spawn_failed_first() -> None:
    spawn = load("train_spawn")
    lost = spawn.Failure(0, False, "RuntimeError: Connection closed by peer [127.0.0.1]:17334")
    own = spawn.Failure(1, False, "ValueError: a bad value")
    killed = spawn.Failure(2, True, "ended by signal 9")
    assert spawn.first_cause([lost]) is lost
    assert spawn.first_cause([lost, own]) is own
    assert spawn.first_cause([lost, own, killed]) is killed


def test_every_way_has_a_name_of_its_own() -> None:
    ways = load("train_ways").WAYS
    assert {"single", "dp", "ddp", "no_sync", "spawn", "fsdp", "split"} <= set(ways)
    assert all(name == way.name for name, way in ways.items())
