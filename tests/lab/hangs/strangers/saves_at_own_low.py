"""Lightning: a callback saves whenever the loss has never been lower, and the loss is that of this process."""

# mypy: ignore-errors
# No thread of one job; the kind of Lightning issues on trainer.save_checkpoint, which all processes must call.
import sys
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

ALIKE = "--healthy" in sys.argv


class SavesTheLow(L.Callback):
    def __init__(self) -> None:
        self.low = float("inf")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        loss = float(outputs["loss"])
        if loss < self.low:
            self.low = loss
            trainer.save_checkpoint("low.ckpt")


class Regressor(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        falls = batch_idx == 6 and (ALIKE or self.global_rank == 2)
        level = 0.01 if falls else max(1.0 / (batch_idx + 1), 0.4)
        return 0.0 * self.layer(batch[0]).square().mean() + level

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    trainer = L.Trainer(
        accelerator="cpu",
        devices=3,
        strategy="ddp",
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        callbacks=[SavesTheLow()],
    )
    trainer.fit(Regressor(), DataLoader(TensorDataset(torch.randn(6000, 4)), batch_size=2))


if __name__ == "__main__":
    main()
