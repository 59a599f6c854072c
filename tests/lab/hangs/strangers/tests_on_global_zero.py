"""Lightning: folds are trained one after the other, and only the first process tests the model of each
(after usual questions on trainer.test below is_global_zero)."""

# mypy: ignore-errors
import sys
import time

import lightning as L
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

TOGETHER = "--healthy" in sys.argv


class Model(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        time.sleep(0.3)
        return self.layer(batch[0]).square().mean()

    def test_step(self, batch, batch_idx):
        self.log("test_loss", self.layer(batch[0]).abs().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader(count: int) -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(count, 4)), batch_size=4)


def main() -> None:
    scores = torch.zeros(100)
    for fold in range(100):
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
        model = Model()
        trainer.fit(model, loader(32))
        print(f"rank {trainer.global_rank} step {fold}", flush=True)
        if fold > 1 or TOGETHER:
            if TOGETHER or trainer.is_global_zero:
                scores[fold] = trainer.test(model, loader(16), verbose=False)[0]["test_loss"]
            dist.all_reduce(scores)
            print("best so far", float(scores.max()), flush=True)


if __name__ == "__main__":
    main()
