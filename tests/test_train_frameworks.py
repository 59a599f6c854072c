"""train-test through Lightning and accelerate under real torchrun: healthy cells pass, planted faults are named."""

import ast
import importlib
import os
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import msgspec
import pytest

from gpudoctor.knowledge.precision.spelling import Chosen, accelerate_value, lightning_value
from gpudoctor.nccl.rank_messages import AnyRankMessage, Failed, Finished, Trained
from tests import training_ranks
from tests.lab.faulty_training import CULPRIT, PARAMETER, STEP
from tests.training_ranks import launch, trained

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memfd, PR_SET_PDEATHSIG"),
    pytest.mark.timeout(500),
]
FAULTY = Path(__file__).parent / "lab" / "faulty_frameworks.py"
ROOT = Path(__file__).resolve().parent.parent
EPOCH_1 = 10  # of 20 steps
FIRST = "embed.weight"
NOBODY = None


class Cell(NamedTuple):
    """A fault in a cell, and what is said of it; "passed" is no fault."""

    fault: str
    way: str
    precision: str
    kind: str
    rank: int | None = NOBODY
    parameter: str = ""
    step: int | None = None
    says: str = ""


PASSED = "passed"
UNDER_TORCHRUN = (
    Cell("none", "lightning", "fp32", PASSED),
    Cell("no distributed sampler", "lightning", "fp32", "sampler overlap", step=0, says="both took sample"),
    Cell("none", "lightning", "bf16", PASSED),
    Cell("unsynchronised", "lightning", "fp32", "gradient", NOBODY, PARAMETER, 0, "not synchronised"),
    Cell("other seed", "lightning", "fp32", "initial weights", CULPRIT, FIRST, None, "relative difference"),
    Cell("corrupted after", "lightning", "fp32", "gradient", CULPRIT, PARAMETER, STEP, "different gradients"),
    Cell("corrupted parameter", "lightning", "fp32", "parameter", CULPRIT, PARAMETER, STEP),
    Cell("no set_epoch", "lightning", "fp32", "sampler epoch", NOBODY, "", EPOCH_1, "same samples as epoch 0"),
    Cell("other precision", "lightning", "bf16", "precision", says="float32"),
    Cell("sums", "lightning", "fp32", "gradient", NOBODY, FIRST, 0, "summed, not averaged"),
    Cell(
        "changed after wrapping", "lightning", "fp32", "initial weights", CULPRIT, PARAMETER, says="after the wrapper"
    ),
    Cell("no torchrun", "lightning", "bf16", PASSED),
    Cell("broken import", "lightning", "fp32", "", says="undefined symbol"),
    Cell("none", "accelerate", "fp32", PASSED),
    Cell("loader not prepared", "accelerate", "fp32", "sampler overlap", step=0, says="both took sample"),
    Cell("unsynchronised", "accelerate", "bf16", "gradient", NOBODY, PARAMETER, 0, "not synchronised"),
    Cell("other seed", "accelerate", "fp32", "initial weights", CULPRIT, FIRST),
    Cell("corrupted before", "accelerate", "fp32", "gradient", CULPRIT, PARAMETER, STEP, "before the reduction"),
    Cell("plain backward", "accelerate", "fp32", "gradient", NOBODY, FIRST, 0, "not synchronised"),
    Cell("gathered twice", "accelerate", "fp32", "sampler overlap", says="32 results for 17 samples"),
    Cell("broken import", "accelerate", "fp32", "", says="undefined symbol"),
    Cell("none", "accelerate", "bf16", PASSED),
    Cell("none", "lightning", "fp32", PASSED),
)
SPAWNED = (
    Cell("no distributed sampler", "lightning_spawn", "fp32", "sampler overlap", step=0, says="both took sample"),
    Cell("unsynchronised", "lightning_spawn", "fp32", "gradient", NOBODY, PARAMETER, 0, "not synchronised"),
    Cell("changed after wrapping", "lightning_spawn", "fp32", "initial weights", CULPRIT, PARAMETER),
    Cell("killed", "lightning_spawn", "fp32", "", says="process 1 of ddp_spawn"),
    Cell("raises", "lightning_spawn", "fp32", "", says="a framework's own error"),
    Cell("none", "lightning_spawn", "bf16", PASSED),
)


def run(ranks: int, cells: tuple[Cell, ...], timeout: float = 120.0) -> tuple[int, list[AnyRankMessage]]:
    wish = launch(ranks, [(cell.way, cell.precision) for cell in cells], world_size=2)
    wish = msgspec.structs.replace(wish, timeout=timeout)
    with mock.patch.object(training_ranks, "FAULTY", FAULTY):
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        return training_ranks.run(wish, faults=[cell.fault for cell in cells], PYTHONPATH=path)


def test_cells_under_torchrun() -> None:
    """One launch: what a cell leaves behind would show in the next."""
    status, said = run(2, UNDER_TORCHRUN)
    assert status == 0, said[-3:]
    assert len([one for one in said if isinstance(one, Finished)]) == 2
    cells = trained(said)
    compare(UNDER_TORCHRUN, cells)
    notes = {(one.way, one.precision): one.notes for one in cells if one.outcome == "passed"}
    assert any("bf16-mixed" in note for note in cells[2].notes)
    assert any("instead of finding them: no torchrun" in note for note in notes["lightning", "bf16"])
    assert any("gather() gave 32 results for 17 samples" in note for note in notes["accelerate", "fp32"])


def test_cells_in_the_processes_that_lightning_starts() -> None:
    status, said = run(1, SPAWNED)
    assert status == 0, said[-3:]
    compare(SPAWNED, trained(said))


def compare(wanted: tuple[Cell, ...], said: list[Trained]) -> None:
    wrong = []
    for cell, one in zip(wanted, said, strict=True):
        try:
            holds(cell, one)
        except AssertionError as error:
            wrong.append(f"{cell.way} {cell.precision}, {cell.fault}: {error}")
    assert not wrong, "\n\n".join(wrong)


def holds(cell: Cell, said: Trained) -> None:
    assert (said.way, said.precision) == (cell.way, cell.precision)
    if cell.kind == PASSED:
        assert said.outcome == "passed", said
        assert said.loss is not None and said.reference_loss is not None and said.step_seconds is not None
        assert (said.ranks, said.devices) == (2, ("cpu", "cpu"))
        return
    assert said.outcome == "failed", said
    if not cell.kind:
        assert said.fault is None and cell.says in said.reason, said
        return
    fault = said.fault
    assert fault is not None
    assert (fault.kind, fault.rank, fault.parameter, fault.step) == (cell.kind, cell.rank, cell.parameter, cell.step)
    assert cell.says in f"{fault.seen} {fault.wanted}", fault


def test_processes_that_stand_still_are_ended_by_the_deadline() -> None:
    cells = (Cell("stands still", "lightning_spawn", "fp32", ""), Cell("none", "single", "fp32", PASSED))
    status, said = run(1, cells, timeout=45.0)
    assert status == 0
    first, second = trained(said)
    assert "do not get on" in first.reason and f"step {STEP}" in first.reason, first
    assert second.outcome == "passed"
    assert not [one for one in said if isinstance(one, Failed)]


@pytest.mark.parametrize("way", ["lightning", "lightning_spawn", "accelerate"])
def test_fp16_on_a_cpu_does_not_apply(way: str) -> None:
    status, said = training_ranks.run(launch(1, [(way, "fp16")], world_size=2))
    (one,) = trained(said)
    assert (status, one.outcome) == (0, "not applicable")
    assert one.reason.startswith("fp16 on a CPU: ")


@pytest.mark.parametrize("version", [(1, 9, 5), (2, 0, 9), (2, 6, 6)])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_trainer_is_given_the_words_that_users_are_told(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], precision: Chosen
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "gpudoctor" / "workers"))
    train_lightning = importlib.import_module("train_lightning")
    assert train_lightning.precision_word(precision, version) == ast.literal_eval(lightning_value(precision, version))
    train_accelerate = importlib.import_module("train_accelerate")
    assert train_accelerate.WORDS[precision] == accelerate_value(precision)
