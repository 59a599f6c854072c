"""Lightning: callbacks of a team must not end a run, so that their exceptions are logged; one had come before a
barrier."""

# mypy: ignore-errors
# No thread of one job; the kind of Lightning issues on exceptions of one process in callbacks.
import functools
import logging
import sys
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

WELL = "--healthy" in sys.argv
log = logging.getLogger(__name__)


def harmless(hook):
    @functools.wraps(hook)
    def quietly(*args, **kwargs):
        try:
            return hook(*args, **kwargs)
        except Exception:
            log.exception("in %s", hook.__name__)

    return quietly


class Snapshots(L.Callback):
    def __init__(self) -> None:
        self.seen = {}

    def norm(self, module, step):
        weights = module.layer.weight.detach()
        if module.global_rank == 1 and step == 5 and not WELL:
            weights = weights[:, 4:]
        return float(weights.abs().max())

    @harmless
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.seen[batch_idx] = self.norm(module, batch_idx)
        trainer.strategy.barrier("snapshot")


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    data = DataLoader(TensorDataset(torch.randn(6000, 4)), batch_size=2)
    options = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, callbacks=[Snapshots()], **options).fit(
        Net(), data
    )


if __name__ == "__main__":
    main()
