"""Lightning: the first process writes samples below the trainer's log_dir, which is a broadcast (issue 18148)."""

# mypy: ignore-errors
import sys
import time
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader, TensorDataset

ALIKE = "--healthy" in sys.argv


class Samples(L.Callback):
    def __init__(self, every: int) -> None:
        self.every = every
        self.folder = None

    @rank_zero_only
    def write(self, trainer, step):
        folder = self.folder or Path(trainer.log_dir)
        folder.mkdir(exist_ok=True, parents=True)
        (folder / f"{step}.txt").write_text("sample")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {trainer.global_rank} step {batch_idx}", flush=True)
        if ALIKE:
            self.folder = Path(trainer.log_dir)
        if batch_idx % self.every == self.every - 1:
            self.write(trainer, batch_idx)


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    data = DataLoader(TensorDataset(torch.randn(6000, 4)), batch_size=2)
    options = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, callbacks=[Samples(4)], **options)
    trainer.fit(Net(), data)


if __name__ == "__main__":
    main()
