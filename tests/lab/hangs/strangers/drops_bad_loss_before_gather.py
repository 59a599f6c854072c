"""Lightning, its own optimization: a batch whose loss is not finite is left out before frames are counted over all
(pytorch/audio issue 3749)."""

# mypy: ignore-errors
import sys
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

CLEAN = "--healthy" in sys.argv


class Pretrainer(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.layer = torch.nn.Linear(4, 4)

    def _step(self, batch, batch_idx):
        frames = self.layer(batch[0])
        loss = frames.square().mean()
        if self.global_rank == 1 and batch_idx == 5 and not CLEAN:
            loss = loss / 0.0
        return loss, torch.tensor(float(frames.numel()))

    def training_step(self, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss, count = self._step(batch, batch_idx)
        if not torch.isfinite(loss):
            return
        counts = self.all_gather(count)
        self.manual_backward(loss * count / counts.sum())
        optimizer.step()

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.trainer.strategy.barrier("the queue of batches moves on")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    data = DataLoader(TensorDataset(torch.randn(6000, 4)), batch_size=2)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(Pretrainer(), data)


if __name__ == "__main__":
    main()
