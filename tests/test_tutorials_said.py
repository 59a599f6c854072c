"""The sentences of the tutorials' errors, said by the real torch and Lightning, and answered as the table wants it."""

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from gpudoctor.cli import run
from tests.tutorials import ROWS

BY_ID = {row.id: row for row in ROWS}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.fc(x)
        return answer


def into_wrapper() -> None:
    nn.DataParallel(Net()).load_state_dict(Net().state_dict())


def out_of_wrapper() -> None:
    Net().load_state_dict(nn.DataParallel(Net()).state_dict())


def another_model() -> None:
    nn.Sequential(nn.Linear(3, 2)).load_state_dict(Net().state_dict())


def data_parallel() -> None:
    """On a machine without GPUs DataParallel takes none; told of one, it looks where the model is first."""
    model = nn.DataParallel(Net())
    model.device_ids, model.src_device_obj = [0], torch.device("cuda:0")
    model(torch.zeros(1, 3))


def two_devices() -> None:
    """The meta device is the only second one that every machine has; it has words of its own."""
    torch.zeros(3) + torch.zeros(3, device="meta")


def gpus() -> None:
    from lightning import Trainer

    Trainer(gpus=4)  # type: ignore[call-arg]


def fairscale() -> None:
    from lightning import Trainer

    Trainer(strategy="fairscale")


SAID: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "module-missing-traceback": (into_wrapper, ("evaluate.py",)),
    "module-left-traceback": (out_of_wrapper, ("evaluate.py",)),
    "another-model": (another_model, ()),
    "data-parallel-first-device": (data_parallel, ("cuda:1",)),
    "two-devices": (two_devices, ("cuda:0", "cuda:1")),
    "log-gpus": (gpus, ("fit.py:12",)),
    "log-fairscale": (fairscale, ()),
}
"""A row, who says its sentence here, and which of the row's words are of its own example."""


@pytest.mark.filterwarnings("ignore")  # Lightning's own, of its dependencies
@pytest.mark.parametrize("id", SAID)
def test_what_torch_and_lightning_say_is_answered(
    id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    speak, of_the_example = SAID[id]
    with pytest.raises(Exception) as caught:
        speak()
    text = "".join(traceback.format_exception(caught.value))
    log = tmp_path / "run.log"
    log.write_text(text, encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "110")
    capsys.readouterr()
    assert run(["explain", str(log)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    for words in BY_ID[id].told:
        assert words in of_the_example or " ".join(words.split()) in said, f"{words!r} is not told of\n{text}\n{said}"
    for words in BY_ID[id].untold:
        assert words not in said, f"{words!r} is told of\n{text}\n{said}"
