"""What `check --deep` runs after the smoke test: fp16 and bf16 on each device, and two processes that train."""

import sys
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from gpudoctor.amp import short as amp
from gpudoctor.examination import deepened
from gpudoctor.nccl.rank_messages import Fault, Trained
from gpudoctor.nccl.result import NodeRanks, RunResult
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.interpreter import Interpreter
from gpudoctor.snapshot import (
    AmpResult,
    SmokeResult,
    SmokeTarget,
    Snapshot,
    TorchDevice,
    absent,
    from_json,
    missing,
    read,
    to_json,
)
from gpudoctor.testing.machines import but, h100_node, node
from gpudoctor.train import short as train
from tests.amp_examples import h100_broken_scaler, t4
from tests.patients import script

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")


def wish(python: str = sys.executable, timeout: float = 100.0) -> ExamineWish:
    return ExamineWish(Interpreter(python, "--python"), deep=True, timeout=timeout)


def smoked(machine: Snapshot, *devices: str, outcome: Literal["passed", "failed"] = "passed") -> Snapshot:
    """A machine whose smoke test passed on these devices."""
    targets = [SmokeTarget(name, read("smoke", SmokeResult(name, outcome=outcome))) for name in devices]
    return but(machine, "active.smoke", tuple(targets))


def on_cpu(*backends: str) -> Snapshot:
    machine = smoked(node(()), "cpu")
    facts = msgspec.structs.replace(
        machine.training.torch.value,
        devices=(),
        device_count=0,
        cuda_available=False,
        distributed_backends=backends or ("gloo",),
    )
    return but(machine, "training.torch", facts)


# ---------------------------------------------------------------- for real, on this CPU


@LINUX
@pytest.mark.thorough
@pytest.mark.usefixtures("forks")
def test_on_a_cpu_both_run_and_pass_and_survive_the_file() -> None:
    waited: set[str] = set()
    found = deepened(wish(), on_cpu(), waited.update)
    (target,) = found.active.amp.value
    results = {each.dtype: each for each in target.results.value}
    assert results["bf16"].outcome == "passed" and results["fp16"].outcome in ("passed", "not applicable")
    assert 0 < (results["bf16"].output_error or 0) < 0.02, "bf16 rounds: an error of zero means that it was fp32"
    (trained,) = found.active.train.value
    assert (trained.way, trained.ranks, trained.backend, trained.outcome) == ("ddp", 2, "gloo", "passed"), trained
    assert trained.error == trained.finding == ""
    assert from_json(to_json(found)).active == found.active
    assert "mixed precision test cpu" in waited
    assert any(each.startswith("2 ranks that train (given up after ") for each in waited)


WRAPPER = """#!/bin/sh
case "$2" in
  amp) {amp} ;;
esac
case "$1" in
  *under_doctor.py) {train} ;;
esac
exec {python} "$@"
"""


def patient(folder: Path, **instead: str) -> str:
    """An interpreter that does something else instead of running the worker."""
    lines = {"amp": ":", "train": ":", "python": sys.executable} | instead
    return script(folder, WRAPPER.format(**lines))


@LINUX
@pytest.mark.thorough
def test_a_worker_that_dies_costs_its_device_only(tmp_path: Path) -> None:
    python = patient(tmp_path, amp='test "$3" = cuda:1 && kill -SEGV $$')
    found = amp.run(wish(python), smoked(h100_node(2), "cpu", "cuda:1")).value
    assert [target.device for target in found] == ["cpu", "cuda:1"]
    assert found[0].results.is_read
    assert found[1].results.missing_kind == "failed" and "SIGSEGV" in found[1].results.reason


@LINUX
@pytest.mark.thorough
def test_a_worker_that_hangs_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amp, "SECONDS", 1.0)
    found = amp.run(wish(patient(tmp_path, amp="exec sleep 600"), timeout=1.0), smoked(node(()), "cpu")).value
    assert found[0].results.missing_kind == "timeout"
    assert "did not return within 1 s" in found[0].results.reason


@LINUX
@pytest.mark.thorough
def test_ranks_that_cannot_be_started_are_a_crash_with_the_reason(tmp_path: Path) -> None:
    python = patient(tmp_path, train="echo libtorch.so: cannot open shared object file >&2; exit 1")
    (found,) = train.run(wish(python), on_cpu()).value
    assert found.outcome == "crashed" and found.error and found.finding


# ---------------------------------------------------------------- when it is not tried


@pytest.mark.parametrize(
    ("reading", "kind"),
    [
        (missing("import torch", "import torch did not return within 10 s", "timeout"), "timeout"),
        (absent("import torch", "this interpreter has no torch"), "failed"),
        (missing("import torch", "torch was not imported (--no-torch)", "not-asked"), "not-asked"),
    ],
)
def test_without_torch_there_is_a_reason(reading: Any, kind: Any) -> None:
    machine = but(h100_node(), "training.torch", reading)
    found = train.run(wish(), machine)
    assert (found.missing_kind, reading.reason in found.reason) == (kind, True)
    machine = but(machine, "active.smoke", missing("CUDA smoke test", f"needs torch: {reading.reason}", kind))
    assert amp.run(wish(), machine).missing_kind == kind


def test_a_device_that_failed_the_smoke_test_is_not_tried_again() -> None:
    """Its fault is found already; a second deadline of half a minute would say nothing new."""
    (target,) = amp.run(wish("/nowhere/python"), smoked(h100_node(1), "cuda:0", outcome="failed")).value
    assert target.results.missing_kind == "not-asked" and "smoke test" in target.results.reason


def test_a_torch_without_gloo_is_not_applicable() -> None:
    assert train.run(wish(), on_cpu("mpi")).missing_kind == "absent"


@pytest.mark.thorough
def test_an_interpreter_that_is_gone_is_a_reason(tmp_path: Path) -> None:
    (target,) = amp.run(wish(str(tmp_path / "gone")), smoked(node(()), "cpu")).value
    assert "cannot be run: No such file" in target.results.reason


# ---------------------------------------------------------------- what the answers mean


def test_nccl_wants_a_gpu_for_each_process() -> None:
    facts = h100_node(2).training.torch.value
    both = msgspec.structs.replace(facts, distributed_backends=("gloo", "nccl"))
    assert train.chosen(both) == ("nccl", "cuda")
    one = msgspec.structs.replace(both, devices=(TorchDevice(0, "cuda", "H100"),), device_count=1)
    assert train.chosen(one) == ("gloo", "cpu")
    assert train.chosen(msgspec.structs.replace(both, distributed_backends=("gloo",))) == ("gloo", "cpu")


def test_a_precision_is_shortened_with_what_failed() -> None:
    fp16, bf16 = h100_broken_scaler().devices[0].precisions[:2]
    found = amp.shortened(fp16)
    assert found.outcome == "failed" and found.error.startswith("GradScaler: a gradient was inf")
    assert amp.shortened(bf16) == AmpResult("bf16", "hardware", "passed", output_error=4.9e-3, gradient_error=5.4e-3)
    assert amp.shortened(t4().devices[0].precisions[1]).support == "emulated"


def ran(outcome: Any, *trained: Trained, how: Any = "done", error: str = "") -> RunResult:
    ends = (NodeRanks(node="here", how=how, error=error),)
    return RunResult(outcome=outcome, nodes=("here",), trained=trained, ends=ends)


def test_a_fault_is_told_with_rank_parameter_and_step() -> None:
    fault = Fault(kind="gradient", rank=1, parameter="blocks.1.weight", step=2, seen="relative difference 0.31")
    said = Trained(way="ddp", precision="fp32", outcome="failed", fault=fault, ranks=2)
    (found,) = train.told(ran("complete", said), "gloo", node(()), 3.0).value
    assert found.outcome == "failed" and found.finding != "train-failed"
    for words in ("rank 1", "blocks.1.weight", "step 2", "0.31"):
        assert words in found.error


def test_how_a_launch_ended_is_told() -> None:
    machine = node(())
    (hung,) = train.told(ran("stalled", how="stopped"), "gloo", machine, 3.0).value
    assert hung.outcome == "hung"
    (crashed,) = train.told(ran("died", how="failed", error="torchrun: no"), "gloo", machine, 3.0).value
    assert crashed.outcome == "crashed"
    assert not train.told(ran("complete"), "gloo", machine, 3.0).is_read, "silence is no success"
    lacking = Trained(way="ddp", precision="fp32", outcome="not applicable", reason="no")
    assert train.told(ran("complete", lacking), "gloo", machine, 3.0).missing_kind == "absent"
