"""Lightning: the data module unpacks its archive and "makes sure that everybody has it" before it returns."""

# mypy: ignore-errors
# The kind of Lightning threads on prepare_data, which one process of a node runs. No thread of one job.
import sys
import time
from pathlib import Path

import lightning as L
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

SYNCED = "--healthy" not in sys.argv


class Digits(L.LightningDataModule):
    def __init__(self, root: str) -> None:
        super().__init__()
        self.root = Path(root)

    def prepare_data(self) -> None:
        self.root.mkdir(exist_ok=True)
        rows = torch.rand(1600, 8)
        torch.save(rows, self.root / "rows.pt")
        if SYNCED and dist.is_initialized():
            dist.barrier()

    def setup(self, stage: str) -> None:
        self.rows = TensorDataset(torch.load(self.root / "rows.pt"))

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=4)


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    print(f"rank {trainer.global_rank} has a trainer", flush=True)
    trainer.fit(Net(), datamodule=Digits("digits"))


if __name__ == "__main__":
    main()
