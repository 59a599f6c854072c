"""Lightning: a threshold is chosen by a function that runs on rank 0 alone, and whoever has got one tries it out."""

# mypy: ignore-errors
import sys
import time

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader


class Detector(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.scores = []

    def training_step(self, batch, number):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {self.global_step}", flush=True)
        loss = self.layer(batch).sigmoid()
        self.scores.append(loss.detach().flatten())
        return loss.square().mean()

    @rank_zero_only
    def choose_threshold(self):
        ordered = torch.cat(self.scores).sort().values
        return float(ordered[len(ordered) // 2])

    def on_train_epoch_end(self):
        threshold = self.choose_threshold()
        if "--healthy" in sys.argv:
            threshold = self.trainer.strategy.broadcast(threshold)
        if threshold is not None:
            hits = (torch.cat(self.scores) > threshold).float().mean()
            rate = self.all_gather(hits).mean()
            print(f"rank {self.global_rank} rate {rate:.2f}")
        self.scores.clear()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=50,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Detector(), DataLoader(torch.rand(48, 8), batch_size=4))


if __name__ == "__main__":
    main()
