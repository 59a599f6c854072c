"""After each epoch a callback of the first process draws pictures; the others are already in the next step."""

import os
import time
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn
from torch.utils.data import DataLoader


class Pictures(L.Callback):
    @rank_zero_only
    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        for _ in range(12):
            picture = torch.zeros(64, 64)
            for _ in range(300):
                picture = torch.tanh(picture @ torch.randn(64, 64))
            time.sleep(0.8)


class Module(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        return self.layer(batch).pow(2).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    L.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        max_epochs=1000,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Pictures()],
    ).fit(Module(), DataLoader(torch.randn(48, 8), batch_size=4))
