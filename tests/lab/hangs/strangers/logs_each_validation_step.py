"""Lightning: the validation set of each process is its own, and each step of it logs over all processes
(Lightning issue 20404 for the kind)."""

# mypy: ignore-errors
import sys
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

EVEN = "--healthy" in sys.argv


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).abs().mean()
        self.log("val_loss", loss, on_step=True, on_epoch=False, sync_dist=True)

    def val_dataloader(self):
        rows = 12 if EVEN or self.trainer.global_rank == 0 else 9
        return DataLoader(TensorDataset(torch.randn(rows, 4)), batch_size=1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    data = DataLoader(TensorDataset(torch.randn(6000, 4)), batch_size=2)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        val_check_interval=4,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(Net(), data)


if __name__ == "__main__":
    main()
