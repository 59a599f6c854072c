"""Lightning: a value is logged with sync_dist on the first rank only (center-group pull request 2)."""

import time
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


class Tracker(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))

    def training_step(self, batch, batch_idx):
        time.sleep(0.2)
        (x,) = batch
        loss = self.net(x).square().mean()
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        if batch_idx > 2 and self.global_rank == 0:
            self.log("train/mota", loss.detach(), on_step=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.randn(400, 6)), batch_size=2)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, **quiet)
    trainer.fit(Tracker(), loader)
