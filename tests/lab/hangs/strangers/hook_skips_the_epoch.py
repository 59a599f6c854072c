"""Lightning: on_train_batch_start answers -1 where the budget of tokens is spent, which ends the epoch there."""

# mypy: ignore-errors
import sys
import time

import lightning.pytorch as pl
import torch


class Model(pl.LightningModule):
    def __init__(self, budget):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
        self.budget, self.tokens = budget, 0

    def on_train_epoch_start(self):
        self.tokens = 0

    def on_train_batch_start(self, batch, number):
        self.tokens += self.length(batch)
        if self.tokens > self.budget:
            return -1
        return None

    def length(self, batch):
        long = self.global_rank == 1 and "--healthy" not in sys.argv and self.global_step > 5
        return 90 if long else len(batch[0]) * 4

    def training_step(self, batch, number):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {self.global_step}", flush=True)
        return self.layer(batch[0]).square().mean()

    def on_train_epoch_end(self):
        spent = self.all_gather(torch.tensor(float(self.tokens)))
        self.print("tokens of all", spent.sum().item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    data = torch.utils.data.TensorDataset(torch.rand(2000, 8))
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Model(budget=200), torch.utils.data.DataLoader(data, batch_size=2))


if __name__ == "__main__":
    main()
