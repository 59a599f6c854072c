"""The LightningModule that train-test trains, and the callback that follows it. Imports Lightning: load it late.

At module level, for ddp_spawn sends both to its processes by name.
"""

import importlib
from typing import Any, Callable, Optional

import torch
import train_net
from train_reference import optimizer
from train_watch import Watch

try:
    lightning = importlib.import_module("lightning.pytorch")
except ImportError:
    lightning = importlib.import_module("pytorch_lightning")
Base: Any = lightning.LightningModule
Callback: Any = lightning.Callback


class Model(Base):  # type: ignore[misc]  # of whichever package is installed
    """As users write it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = train_net.Net()
        self.watch: Optional[Watch] = None

    def forward(self, inputs: Any) -> Any:
        return self.net(inputs)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        watch = self.watch
        assert watch is not None
        watch.took(int(self.trainer.current_epoch), [int(number) for number in batch[2]])
        return watch.forward(train_net.loss_of(self(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        return optimizer(torch, self.parameters())


class Follow(Callback):  # type: ignore[misc]
    """Verifies between Lightning's steps. `open_watch` is called on each rank, when the ranks have found each other;
    `close` when training is done.
    """

    def __init__(self, open_watch: Callable[[Any], Watch], close: Callable[[Watch], None]) -> None:
        self.open_watch = open_watch
        self.close = close
        self.watch: Any = None

    def setup(self, trainer: Any, pl_module: Any, *rest: Any, **named: Any) -> None:
        self.watch = pl_module.watch = self.open_watch(trainer)
        self.watch.unwrapped(pl_module.net)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.watch.begin()

    def on_before_optimizer_step(self, *rest: Any, **named: Any) -> None:
        self.watch.before_optimizer()

    def on_train_batch_end(self, *rest: Any, **named: Any) -> None:
        self.watch.after_optimizer()

    def on_train_epoch_end(self, trainer: Any, *rest: Any, **named: Any) -> None:
        self.watch.end_epoch(int(trainer.current_epoch))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.close(self.watch)
