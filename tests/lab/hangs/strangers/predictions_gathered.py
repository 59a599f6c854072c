"""Lightning: predict_step gathers, and predict gives the processes unlike many rows, for none is to be repeated."""

# mypy: ignore-errors
# No thread of one job; the kind of Lightning issues on all_gather in predict_step.
import sys
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

ROWS = 4000 if "--healthy" in sys.argv else 15


class Net(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def predict_step(self, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        scores = self.layer(batch[0])
        return self.all_gather(scores).flatten()


def main() -> None:
    data = DataLoader(TensorDataset(torch.randn(ROWS, 4)), batch_size=1)
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_progress_bar=False)
    scores = trainer.predict(Net(), data)
    trainer.strategy.barrier("scores")
    if trainer.is_global_zero:
        torch.save(scores, "scores.pt")


if __name__ == "__main__":
    main()
