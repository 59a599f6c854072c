"""Training with Lightning that validates often; the first process has the longest samples."""

# mypy: ignore-errors
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Regressor(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.steps = torch.nn.Linear(4, 1), 0

    def training_step(self, batch, batch_idx):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {self.steps}", flush=True)
        self.steps += 1
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx):
        time.sleep(1.2 if self.global_rank == 0 else 0.1)
        self.log("val", self.layer(batch[0]).mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    train = DataLoader(TensorDataset(torch.randn(4000, 4)), batch_size=2)
    valid = DataLoader(TensorDataset(torch.randn(12, 4)), batch_size=2)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=20,
        val_check_interval=5,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(Regressor(), train, valid)


if __name__ == "__main__":
    main()
