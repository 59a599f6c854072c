"""`gpudoctor checkpoint FILE --like OTHER`: wrappers on either side, and the lines load into torch's own models."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import nn

from gpudoctor.checkpoint.examine import FileWish, examined


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def compiled(model: nn.Module) -> nn.Module:
    wrapped = torch.compile(model)
    assert isinstance(wrapped, nn.Module)
    return wrapped


def compiled_inside() -> nn.Module:
    model = net()
    model[0] = compiled(model[0])
    return model


def averaged() -> nn.Module:
    return torch.optim.swa_utils.AveragedModel(net())


MODELS: dict[str, Callable[[], nn.Module]] = {
    "plain": net,
    "data parallel": lambda: nn.DataParallel(net()),
    "compiled": lambda: compiled(net()),
    "compiled inside": compiled_inside,
    "data parallel of compiled": lambda: nn.DataParallel(compiled(net())),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@pytest.mark.parametrize(("mine", "other"), list(product(MODELS, MODELS)))
def test_the_lines_load_into_the_other_files_model(mine: str, other: str, tmp_path: Path) -> None:
    given, model = MODELS[mine](), MODELS[other]()
    torch.save(given.state_dict(), tmp_path / "mine.pt")
    torch.save(model.state_dict(), tmp_path / "other.pt")
    report = examined(FileWish(str(tmp_path / "mine.pt"), like=str(tmp_path / "other.pt")))
    (loading,) = report.loading
    differ = set(given.state_dict()) != set(model.state_dict())
    assert bool(loading.error) == differ and not loading.error_after and report.exit_status == 0
    assert ("keys-differ" in {each.id for each in report.problems}) == differ
    assert ("wrapper" in loading.wrapper) == (("plain" in (mine, other)) and mine != other)
    exec("\n".join(loading.lines), {"torch": torch, "model": model})
    for left, right in zip(given.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(left, right)


def test_a_file_never_differs_from_itself(tmp_path: Path) -> None:
    torch.save(averaged().state_dict(), tmp_path / "averaged.pt")
    report = examined(FileWish(str(tmp_path / "averaged.pt"), like=str(tmp_path / "averaged.pt")))
    assert not report.loading[0].error and not report.problems
