"""A metric that all share is computed in a hook for the first process only (torchmetrics issue 2684)."""

import os
import time
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.utils.data import DataLoader
from torchmetrics import MeanMetric


class Autoencoder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.distance = MeanMetric()

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        time.sleep(0.1)
        return (self.layer(batch) - batch).pow(2).mean()

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.distance.update((self.layer(batch) - batch).abs().mean())

    @rank_zero_only
    def on_validation_end(self) -> None:
        print("distance", self.distance.compute().item(), flush=True)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    trainer = L.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        val_check_interval=6,
        num_sanity_val_steps=0,
        limit_val_batches=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = torch.randn(4000, 8)
    trainer.fit(Autoencoder(), DataLoader(data, batch_size=4), DataLoader(data, batch_size=4))
