"""A callback saves a checkpoint when training fails; saving asks all, and one process has failed (Lightning 20187)."""

# mypy: ignore-errors
import time
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.callbacks import OnExceptionCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Regressor(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        if self.global_rank == 1 and batch_idx == 6:
            raise ValueError("negative duration in sample 211")
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    loader = DataLoader(TensorDataset(torch.randn(400, 4)), batch_size=2)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=3,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        callbacks=[OnExceptionCheckpoint(Path.cwd())],
    )
    trainer.fit(Regressor(), loader)


if __name__ == "__main__":
    main()
