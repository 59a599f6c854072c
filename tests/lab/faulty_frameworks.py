"""The rank program of train-test with a fault planted in Lightning, accelerate, or what a user gives them.

Run as faulty_training.py, which has the faults that no framework matters for; the repository is on PYTHONPATH.
"""

import contextlib
import functools
import importlib
import inspect
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from tests.lab import faulty_training
from tests.lab.faulty_training import CULPRIT, PARAMETER, STEP, on_ddp


@contextlib.contextmanager
def on_trainer(**changed: Any) -> Iterator[None]:
    """The script's Trainer has other arguments."""
    lightning = importlib.import_module("lightning.pytorch")
    original = lightning.Trainer.__init__

    def init(self: Any, **options: Any) -> None:
        original(self, **{**options, **changed})

    init.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    with mock.patch.object(lightning.Trainer, "__init__", init):
        yield


@contextlib.contextmanager
def no_distributed_sampler() -> Iterator[None]:
    with on_trainer(use_distributed_sampler=False):
        yield


@contextlib.contextmanager
def other_precision() -> Iterator[None]:
    with on_trainer(precision="32-true"):
        yield


@contextlib.contextmanager
def loader_not_prepared() -> Iterator[None]:
    accelerate = importlib.import_module("accelerate")
    original = accelerate.Accelerator.prepare

    def prepare(self: Any, *parts: Any, **options: Any) -> Any:
        if len(parts) != 3:
            return original(self, *parts, **options)
        return (*original(self, *parts[:2], **options), parts[2])

    with mock.patch.object(accelerate.Accelerator, "prepare", prepare):
        yield


@contextlib.contextmanager
def plain_backward() -> Iterator[None]:
    """loss.backward() on a model that was never prepared: nothing is synchronised."""
    accelerate = importlib.import_module("accelerate")
    original = accelerate.Accelerator.prepare

    def prepare(self: Any, *parts: Any, **options: Any) -> Any:
        if len(parts) != 3:
            return original(self, *parts, **options)
        return (parts[0], *original(self, *parts[1:], **options))

    with mock.patch.object(accelerate.Accelerator, "prepare", prepare):
        yield


@contextlib.contextmanager
def gathered_twice() -> Iterator[None]:
    """Metrics of a version in which gather_for_metrics does not drop what fills up the last batch."""
    accelerate = importlib.import_module("accelerate")
    gather = accelerate.Accelerator.gather
    with mock.patch.object(accelerate.Accelerator, "gather_for_metrics", gather):
        yield


@contextlib.contextmanager
def broken_import() -> Iterator[None]:
    """One rank's installation is damaged."""
    original = importlib.import_module

    def load(name: str, *rest: Any) -> Any:
        if rank() == CULPRIT and name in ("lightning.pytorch", "pytorch_lightning", "accelerate"):
            raise OSError(f"{name}: undefined symbol: _ZN3c10")
        return original(name, *rest)

    with mock.patch.object(importlib, "import_module", load):
        yield


@contextlib.contextmanager
def no_torchrun() -> Iterator[None]:
    """Ranks that srun has started: Lightning must be told them."""
    with mock.patch.dict(os.environ):
        os.environ.pop("TORCHELASTIC_RUN_ID", None)
        yield


@contextlib.contextmanager
def changed_after_wrapping() -> Iterator[None]:
    import torch

    def change(wrapped: Any) -> None:
        if rank() == CULPRIT:
            with torch.no_grad():
                named(wrapped)[1].add_(0.5)

    with on_ddp(after=change):
        yield


@contextlib.contextmanager
def unsynchronised() -> Iterator[None]:
    """A LightningModule with a parameter on DDP's ignore list."""
    from torch.nn.parallel import DistributedDataParallel

    ddp: Any = DistributedDataParallel

    def ignore(module: Any) -> None:
        ddp._set_params_and_buffers_to_ignore_for_model(module, [named(module)[0]])

    with on_ddp(before=ignore):
        yield


@contextlib.contextmanager
def at_step(happens: Callable[[], object]) -> Iterator[None]:
    """After the backward pass of one step, on one rank."""
    import torch

    original: Any = torch.Tensor.backward
    calls = [0]

    def backward(self: Any, *rest: Any, **options: Any) -> Any:
        result = original(self, *rest, **options)
        calls[0] += 1
        if calls[0] == STEP + 1 and rank() == CULPRIT:
            happens()
        return result

    with mock.patch.object(torch.Tensor, "backward", backward):
        yield


@contextlib.contextmanager
def killed() -> Iterator[None]:
    with at_step(lambda: os.kill(os.getpid(), signal.SIGKILL)):
        yield


@contextlib.contextmanager
def raises() -> Iterator[None]:
    def fail() -> None:
        raise ValueError("a framework's own error")

    with at_step(fail):
        yield


@contextlib.contextmanager
def stands_still() -> Iterator[None]:
    with at_step(lambda: time.sleep(3600)):
        yield


def named(module: Any) -> tuple[str, Any]:
    """The parameter that faults are planted in, by the name that it has here."""
    return next((name, one) for name, one in module.named_parameters() if name.endswith(PARAMETER))


FAULTS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    **faulty_training.FAULTS,
    "no distributed sampler": no_distributed_sampler,
    "other precision": other_precision,
    "loader not prepared": loader_not_prepared,
    "plain backward": plain_backward,
    "gathered twice": gathered_twice,
    "broken import": broken_import,
    "no torchrun": no_torchrun,
    "changed after wrapping": changed_after_wrapping,
    "unsynchronised": unsynchronised,
    "killed": killed,
    "raises": raises,
    "stands still": stands_still,
}
FOR_CHILDREN = "GPUDOCTOR_TEST_FAULT"
"""ddp_spawn's processes run this file again, as multiprocessing has them do."""


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, {FOR_CHILDREN: name}), FAULTS[name]():
        yield


def rank() -> int:
    """LOCAL_RANK is all that Lightning's processes have."""
    return int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0)


if __name__ == "__main__":
    with mock.patch.dict(faulty_training.FAULTS, {name: functools.partial(planted, name) for name in FAULTS}):
        faulty_training.main()
elif __name__ == "__mp_main__":
    kept = FAULTS[os.environ[FOR_CHILDREN]]()  # as long as the process lives
    kept.__enter__()
