"""Lightning: a data module that builds its cache where there is none, and one machine has an old one."""

# mypy: ignore-errors
import os
import pathlib
import sys
import time

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Corpus(lightning.LightningDataModule):
    def __init__(self, root, batch_size=4):
        super().__init__()
        self.save_hyperparameters()
        self.cache = pathlib.Path(root) / f"node{os.environ.get('LOCAL_RANK', '0')}" / "rows.pt"

    def build(self):
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        rows = torch.rand(4000, 6)
        counts = self.trainer.strategy.all_gather(torch.tensor(len(rows)))
        torch.save(rows[: int(counts.min())], self.cache)

    def setup(self, stage):
        if not self.cache.exists():
            self.build()
        self.rows = torch.load(self.cache)
        print(f"rank {self.trainer.global_rank} rows {len(self.rows)}", flush=True)

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.rows), batch_size=self.hparams.batch_size)


class Regressor(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 1)

    def training_step(self, batch, index):
        time.sleep(0.2)
        (rows,) = batch
        loss = self.layer(rows).square().mean()
        if index % 10 == 0:
            self.log("loss", loss, sync_dist=True)
        return loss

    def on_train_batch_end(self, outputs, batch, index):
        print(f"rank {self.global_rank} step {self.global_step}", flush=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def old_cache(root):
    """As a run of last week has left it on one node."""
    where = pathlib.Path(root) / "node1" / "rows.pt"
    where.parent.mkdir(parents=True, exist_ok=True)
    torch.save(torch.rand(4000, 6), where)


def main():
    rank = os.environ["RANK"]
    if rank == "1" and "--healthy" not in sys.argv:
        old_cache("cache")
    print(f"rank {rank} begins", flush=True)
    trainer = lightning.Trainer(
        max_epochs=10,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regressor(), datamodule=Corpus("cache"))


if __name__ == "__main__":
    main()
