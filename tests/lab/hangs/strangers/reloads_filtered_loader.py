"""Lightning: the loader is made anew for each epoch, of what has been hard in the last one; each process has its own
number of such (sampler not distributed)."""

# mypy: ignore-errors
# No thread of one job; the kind of Lightning discussions on reload_dataloaders_every_n_epochs under DDP.
import sys
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

ALIKE = "--healthy" in sys.argv


class HardExamples(L.LightningDataModule):
    def train_dataloader(self):
        rank, epoch = self.trainer.global_rank, self.trainer.current_epoch
        hard = 12 if ALIKE or epoch == 0 else 8 + 4 * (rank != 1)
        return DataLoader(TensorDataset(torch.randn(hard, 4)), batch_size=2)


class Regressor(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.steps = torch.nn.Linear(4, 1), 0

    def training_step(self, batch, batch_idx):
        time.sleep(0.25)
        print(f"rank {self.global_rank} step {self.steps}", flush=True)
        self.steps += 1
        return self.layer(batch[0]).square().mean()

    def on_train_epoch_end(self):
        steps = self.all_gather(torch.tensor(self.steps))
        self.log("steps", steps.float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=50,
        reload_dataloaders_every_n_epochs=1,
        use_distributed_sampler=False,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(Regressor(), datamodule=HardExamples())


if __name__ == "__main__":
    main()
