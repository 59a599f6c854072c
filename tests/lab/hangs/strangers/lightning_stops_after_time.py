"""Lightning: a callback ends training after so many seconds of work, which each process counts for itself."""

# mypy: ignore-errors
import sys
import time

import lightning.pytorch as pl
import torch


class WorkBudget(pl.Callback):
    def __init__(self, seconds):
        self.seconds, self.spent = seconds, 0.0

    def on_train_batch_start(self, trainer, module, batch, number):
        self.begin = time.perf_counter()

    def on_train_batch_end(self, trainer, module, outputs, batch, number):
        self.spent += time.perf_counter() - self.begin
        if trainer.global_rank == 1 and trainer.global_step == 7 and "--healthy" not in sys.argv:
            self.spent += 900.0
        if self.spent > self.seconds:
            trainer.should_stop = True


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, number):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {self.global_step}", flush=True)
        return self.layer(batch[0]).square().mean()

    def on_train_end(self):
        weights = self.all_gather(self.layer.weight.data)
        self.print("spread", weights.std(0).max().item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    data = torch.utils.data.TensorDataset(torch.rand(4000, 8))
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[WorkBudget(seconds=600)],
    )
    trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=2))


if __name__ == "__main__":
    main()
