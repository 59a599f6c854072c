"""The sentences of the tutorials' errors, said by the real torch and Lightning, and answered as the table wants it."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from gpudoctor.cli import run
from gpudoctor.explain.devices_apart import devices_apart
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
    """torch's own fake tensors say it of GPUs that are not there, in the words of ATen."""
    with FakeTensorMode():
        torch.empty(2, 3, device="cuda:0") + torch.empty(2, 3, device="cuda:1")


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
    "two-devices": (two_devices, ("mat1", 'x.to("cuda:1")')),
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


ON_META: dict[str, Callable[[], object]] = {
    "add": lambda: torch.zeros(3) + torch.zeros(3, device="meta"),
    "linear": lambda: nn.Linear(3, 3, device="meta")(torch.zeros(2, 3)),
    "norm": lambda: nn.BatchNorm2d(3)(torch.zeros(2, 3, 4, 4, device="meta")),
    "loss": lambda: nn.functional.cross_entropy(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long, device="meta")),
    "cat": lambda: torch.cat([torch.zeros(2), torch.zeros(2, device="meta")]),
    "hidden": lambda: nn.LSTM(3, 3)(torch.zeros(2, 1, 3), (torch.zeros(1, 1, 3, device="meta"),) * 2),
    "parameters": lambda: nn.GRU(3, 3, device="meta")(torch.zeros(2, 1, 3)),
    "attention": lambda: nn.functional.scaled_dot_product_attention(
        torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, device="meta"), torch.zeros(1, 1, 2, 2)
    ),
    "products": lambda: torch.linalg.multi_dot([torch.zeros(2, 2), torch.zeros(2, 2, device="meta")] * 2),
    "index": lambda: torch.zeros(3).index_copy_(0, torch.zeros(1, dtype=torch.long), torch.zeros(1, device="meta")),
    "fourier": lambda: torch.stft(torch.zeros(400), 100, window=torch.zeros(100, device="meta"), return_complex=True),
}
"""What the operators that are left say in words of their own: the meta device is the second that every machine has."""


@pytest.mark.parametrize("name", ON_META)
def test_each_operators_words_for_two_devices_are_known(name: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        ON_META[name]()
    told = devices_apart(str(caught.value), alone=True)
    assert told is not None and {"cpu", "meta"} <= set(re.findall(r"cpu|meta", " ".join(told[1].values()))), (
        caught.value
    )


def test_what_is_not_of_two_devices() -> None:
    for message in (
        "expected device cuda:0 and dtype Float but got device cuda:0 and dtype Half",
        "Input type (torch.cuda.HalfTensor) and weight type (torch.cuda.FloatTensor) should be the same",
        "Events are not on the same device: cuda:0 and cuda:1",
        "CUDA error: invalid device ordinal",
        "Two ranks must not be on the same device cuda:0",
        "rank 0 and rank 1 are expected on different GPUs, and not on the same device",
    ):
        assert devices_apart(message, alone=True) is None, message
    said_of_a_rank = (
        "rank 1: Expected all tensors to be on the same device, but found at least two devices, cpu and cuda:1!"
    )
    assert devices_apart(said_of_a_rank, alone=False) is not None


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "Expected all tensors to be on the same device, but got index is on cuda:0, different from other tensors "
            "on cuda:3 (when checking argument in method wrapper_CUDA__index_select)",
            'self.tail(x.to("cuda:3"))',
        ),
        (
            "Expected tensor for argument #1 'input' to have the same device as tensor for argument #2 'weight'; but "
            "device 0 does not equal 3 (while checking arguments for cudnn_convolution)",
            'self.tail(x.to("cuda:3"))',
        ),
        ("Tensor for argument #3 'mat1' is on CPU, but expected it to be on GPU", 'self.tail(x.to("cuda"))'),
        (
            "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
            'model.to("cuda")',
        ),
        ("expected device cuda:0 but got device cuda:3", "self.tail(x.to(next(self.tail.parameters()).device))"),
    ],
)
def test_the_line_to_write_is_that_of_the_program(message: str, line: str) -> None:
    told = devices_apart(message, alone=True, source="return self.tail(x)")
    assert told is not None and told[1]["line"] == line
