"""The LightningModule that train-test trains, and the callback that follows it. Imports Lightning: load it late.

At module level, for ddp_spawn sends both to its processes by name.
"""

import contextlib
import importlib
from typing import Any, Iterator

import torch
import train_net
from train_reference import optimizer
from train_watch import WatchedRank

try:
    lightning = importlib.import_module("lightning.pytorch")
except ImportError:
    lightning = importlib.import_module("pytorch_lightning")
Base: Any = lightning.LightningModule
Callback: Any = lightning.Callback


class Model(Base):  # type: ignore[misc]  # of whichever package is installed
    """As users write it, with a Net as its only part."""

    def __init__(self, follow: "Follow") -> None:
        super().__init__()
        self.net = train_net.Net()
        self.follow = follow

    def forward(self, inputs: Any) -> Any:
        return self.net(inputs)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        with self.follow.observed() as watch:
            watch.took(int(self.trainer.current_epoch), [int(number) for number in batch[2]])
        loss = train_net.loss_of(self(batch[0]), batch[1])
        with self.follow.observed() as watch:
            return watch.forward(loss)

    def configure_optimizers(self) -> Any:
        return optimizer(torch, self.parameters())


class Follow(Callback):  # type: ignore[misc]
    """Verifies between Lightning's steps."""

    def __init__(self, rank: WatchedRank) -> None:
        self.rank = rank
        self.watch: Any = None

    @contextlib.contextmanager
    def observed(self) -> Iterator[Any]:
        try:
            yield self.watch
        except Exception as error:
            self.rank.failed(error)
            raise

    def setup(self, trainer: Any, pl_module: Any, *rest: Any, **named: Any) -> None:
        with self.observed():
            self.watch = self.rank.open(trainer)
            self.watch.unwrapped(pl_module.net)

    def on_train_start(self, *rest: Any, **named: Any) -> None:
        with self.observed() as watch:
            watch.begin()

    def on_before_optimizer_step(self, *rest: Any, **named: Any) -> None:
        with self.observed() as watch:
            watch.before_optimizer()

    def on_train_batch_end(self, *rest: Any, **named: Any) -> None:
        with self.observed() as watch:
            watch.after_optimizer()

    def on_train_epoch_end(self, trainer: Any, *rest: Any, **named: Any) -> None:
        with self.observed() as watch:
            watch.end_epoch(int(trainer.current_epoch))

    def on_train_end(self, *rest: Any, **named: Any) -> None:
        with self.observed() as watch:
            self.rank.close(watch)
