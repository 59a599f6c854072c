"""Lightning: recall is logged where there is something to recall; early stopping, not strict, goes without."""

# mypy: ignore-errors
# The kind of Lightning threads on EarlyStopping that deadlocks (it reduces its decision only where the metric is).
import sys
import time

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD_RECALL = "--healthy" in sys.argv


class Finder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))

    def training_step(self, batch, batch_idx):
        time.sleep(0.2)
        inputs, labels = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self.body(inputs).squeeze(1), labels)
        print(f"rank {self.global_rank} epoch {self.current_epoch} step {batch_idx}", flush=True)
        return loss

    def validation_step(self, batch, batch_idx):
        inputs, labels = batch
        found = self.body(inputs).squeeze(1) > 0
        positives = labels.bool()
        if positives.any():
            self.log("val_recall", (found & positives).sum() / positives.sum(), on_epoch=True)
        elif PAD_RECALL:
            self.log("val_recall", torch.tensor(0.0), on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def split(rank: int, rows: int) -> TensorDataset:
    """Cases are rare: site 1 has none among those kept for validation."""
    labels = torch.zeros(rows)
    if rank == 0 or rows > 16:
        labels[::5] = 1
    return TensorDataset(torch.randn(rows, 6), labels)


def main() -> None:
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=400,
        logger=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        callbacks=[EarlyStopping("val_recall", mode="max", patience=300, strict=False)],
    )
    rank = trainer.global_rank
    trainer.fit(
        Finder(),
        DataLoader(split(rank, 48), batch_size=8),
        DataLoader(split(rank, 16), batch_size=8),
    )


if __name__ == "__main__":
    main()
