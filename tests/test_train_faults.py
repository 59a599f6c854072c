"""Faults planted in torch under real torchrun: the rank program names rank, parameter and step, or says it cannot."""

import sys
from typing import NamedTuple

import pytest

from gpudoctor.nccl.rank_messages import Finished, Trained
from tests.lab.faulty_training import CULPRIT, FAULTS, PARAMETER, STEP
from tests.training_ranks import launch, run, trained

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memfd, PR_SET_PDEATHSIG"),
    pytest.mark.timeout(500),
]
EPOCH_1 = 10  # of 20 steps
OVERFLOW = 10
FIRST = "embed.weight"
NOBODY = None


class Expected(NamedTuple):
    kind: str
    rank: int | None
    parameter: str = ""
    step: int | None = None
    says: str = ""
    """What the text must hold."""
    way: str = "ddp"
    precision: str = "fp32"


EXPECTED = {
    "other seed": Expected("initial weights", CULPRIT, FIRST, None, "rank 1"),
    "no set_epoch": Expected("sampler epoch", NOBODY, "", EPOCH_1, "same samples as epoch 0"),
    "no set_epoch on one": Expected("sampler epoch", CULPRIT, "", EPOCH_1, "on rank 1"),
    "no sampler": Expected("sampler overlap", NOBODY, "", 0, "ranks 0 and 1 both took sample 0"),
    "other sampler seed": Expected("sampler overlap", CULPRIT, "", None, "both took sample"),
    "short sampler": Expected("sampler loss", CULPRIT, "", EPOCH_1 - 1, "gave 72 samples"),
    "layer not synchronised": Expected("gradient", NOBODY, PARAMETER, 0, "not synchronised (1 of 10 parameters)"),
    "no wrapper": Expected("gradient", NOBODY, FIRST, 0, "not synchronised (10 of 10 parameters)"),
    "no_sync everywhere": Expected("gradient", NOBODY, FIRST, 0, "not synchronised", way="no_sync"),
    "sums": Expected("gradient", NOBODY, FIRST, 0, "summed, not averaged"),
    "weighted reduction": Expected("gradient", NOBODY, "*", 0, "did not give their mean"),
    "corrupted before": Expected("gradient", CULPRIT, PARAMETER, STEP, "rank 1 is wrong before the reduction"),
    "corrupted after": Expected("gradient", CULPRIT, PARAMETER, STEP, "different gradients (1 of 10 parameters)"),
    "corrupted a little": Expected("gradient", CULPRIT, PARAMETER, STEP, "different gradients (1 of 10 parameters)"),
    "nan before": Expected("not finite", CULPRIT, PARAMETER, STEP, "rank 1"),
    "corrupted parameter": Expected("parameter", CULPRIT, PARAMETER, STEP, "different values"),
    "overflow taken": Expected("overflow not skipped", NOBODY, FIRST, OVERFLOW, "ranks 0", precision="fp16"),
    "overflow taken on one": Expected("overflow not skipped", CULPRIT, FIRST, OVERFLOW, "rank 1", precision="fp16"),
    "scale kept": Expected("loss scale", NOBODY, "", OVERFLOW, "1 times", precision="fp16"),
    "scaled twice": Expected("loss scale", NOBODY, FIRST, 0, "2 times", precision="fp16"),
    "never unscaled": Expected("loss scale", NOBODY, FIRST, 0, "still multiplied by the loss scale", precision="fp16"),
    "loss doubled": Expected("loss scale", NOBODY, FIRST, 0, "2 times"),
    "loss doubled on one": Expected("gradient", CULPRIT, "*", 0, "rank 1 is wrong before the reduction"),
    "other dtype": Expected("device", CULPRIT, PARAMETER, None, "float64 on cpu"),
    "other device": Expected("device", CULPRIT, PARAMETER, None, "on meta"),
    "no autocast": Expected("precision", CULPRIT, "", None, "float32", precision="bf16"),
    "frozen": Expected("gradient", NOBODY, PARAMETER, 0, "no gradient on any rank"),
}


def wrong(found: Trained, expected: Expected, *, rank: int | None) -> str:
    """What is not as expected; empty when all is."""
    fault = found.fault
    if found.outcome != "failed" or fault is None:
        return f"{found.outcome} {found.reason}"
    told = (fault.kind, fault.rank, fault.step)
    if told != (expected.kind, rank, expected.step if expected.step is not None else fault.step):
        return f"{told}: {fault.seen}"
    if expected.parameter not in ("*", fault.parameter):
        return f"{fault.parameter}: {fault.seen}"
    if expected.says not in fault.seen or not fault.wanted or fault.seen.endswith(".") or "!" in fault.seen:
        return f"{fault.seen} / {fault.wanted}"
    return ""


def test_every_planted_fault_is_expected() -> None:
    assert set(EXPECTED) | {"none"} == set(FAULTS)


@pytest.mark.parametrize("ranks", [2, 3])
def test_planted_faults_are_named(ranks: int) -> None:
    """All in one launch, between healthy cells: what a fault leaves behind would show there."""
    names = ["none", *EXPECTED, "none again"]
    faults = ["none" if name.startswith("none") else name for name in names]
    cells = [(EXPECTED[name].way, EXPECTED[name].precision) if name in EXPECTED else ("ddp", "fp32") for name in names]
    status, said = run(launch(ranks, cells, world_size=ranks), faults=faults)
    assert status == 0, said[-3:]
    assert len([one for one in said if isinstance(one, Finished)]) == ranks
    problems = {}
    for name, found in zip(names, trained(said), strict=True):
        if name not in EXPECTED:
            assert found.outcome == "passed" and found.fault is None, (name, found)
            continue
        # One bit tells nobody apart where there are two: the single-process run is not as exact as that.
        rank = None if (name, ranks) == ("corrupted a little", 2) else EXPECTED[name].rank
        problems[name] = wrong(found, EXPECTED[name], rank=rank)
    assert not {name: problem for name, problem in problems.items() if problem}


def test_faults_are_named_in_a_sharded_model_too() -> None:
    expected = {
        "other seed": EXPECTED["other seed"],
        "no set_epoch": EXPECTED["no set_epoch"],
        # Sharded gradients cannot be looked at before they are reduced: whose is wrong is not known.
        "loss doubled on one": Expected("gradient", NOBODY, "*", 0, "relative difference"),
        # Nor can a sum over two ranks be told from a loss that was doubled: both are said.
        "loss doubled": Expected("gradient", NOBODY, FIRST, 0, "summed, not averaged, or the loss was scaled"),
        "other dtype": EXPECTED["other dtype"],
    }
    status, said = run(launch(2, [("fsdp", "fp32")] * len(expected), world_size=2), faults=list(expected))
    assert status == 0, said[-3:]
    for (name, one), found in zip(expected.items(), trained(said), strict=True):
        assert not wrong(found, one, rank=one.rank), name
