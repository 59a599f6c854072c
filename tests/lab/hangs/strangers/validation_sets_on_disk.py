"""Lightning: there is a validation loader for each set that lies on this machine's disk, and each logs with
sync_dist."""

# mypy: ignore-errors
import os
import sys
import time
from pathlib import Path

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader


class Data(pl.LightningDataModule):
    names = ("indoor", "night", "rain")

    def prepare_data(self):
        self.copy()

    def copy(self):
        folder = Path(f"disk{os.environ['LOCAL_RANK']}")
        folder.mkdir(exist_ok=True)
        copied = self.names[:2] if folder.name == "disk1" and "--healthy" not in sys.argv else self.names
        for name in copied:
            torch.save(torch.rand(8, 8), folder / f"{name}.pt")

    def setup(self, stage):
        self.copy()
        self.folder = Path(f"disk{self.trainer.local_rank}")

    def train_dataloader(self):
        return DataLoader(torch.rand(32, 8), batch_size=4)

    def val_dataloader(self):
        found = [self.folder / f"{name}.pt" for name in self.names]
        return [DataLoader(torch.load(path), batch_size=4) for path in found if path.exists()]


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, number):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {self.global_step}", flush=True)
        return self.layer(batch).square().mean()

    def validation_step(self, batch, number, dataloader_idx=0):
        self.log("error", self.layer(batch).square().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=50,
        logger=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), datamodule=Data())


if __name__ == "__main__":
    main()
