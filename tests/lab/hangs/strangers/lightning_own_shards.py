"""Lightning: a data module gives each process its own shards, and does not ask whether they hold equally many rows."""

# mypy: ignore-errors
import sys
import time

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, Dataset

SHARDS = {"a": 24, "b": 24, "c": 24, "d": 24 if "--healthy" in sys.argv else 8}


class Shards(Dataset):
    def __init__(self, names):
        self.rows = torch.cat([torch.rand(SHARDS[name], 8) for name in names])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class Data(pl.LightningDataModule):
    def setup(self, stage):
        self.mine = sorted(SHARDS)[self.trainer.global_rank :: self.trainer.world_size]

    def train_dataloader(self):
        return DataLoader(Shards(self.mine), batch_size=4)


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, number):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {self.global_step}", flush=True)
        return self.layer(batch).square().mean()

    def on_train_epoch_end(self):
        self.trainer.strategy.barrier("epoch")

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
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Model(), datamodule=Data())


if __name__ == "__main__":
    main()
