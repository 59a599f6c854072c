"""Scores of a batch are gathered where it holds a positive sample at all."""

# mypy: ignore-errors
# No thread: after usual losses of detectors under Lightning.
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Detector(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 1)

    def labels(self, batch_idx: int) -> torch.Tensor:
        positive = torch.zeros(4)
        if batch_idx < 4 or self.global_rank != 1:
            positive[0] = 1
        return positive

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        scores = self.head(batch[0]).squeeze(1)
        loss = scores.square().mean()
        mask = self.labels(batch_idx) > 0
        if mask.any():
            loss = loss + self.hardest(scores[mask].detach())
        return loss

    def hardest(self, scores: torch.Tensor) -> torch.Tensor:
        everybody = self.all_gather(scores)
        return everybody.max()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    data = TensorDataset(torch.randn(1200, 4))
    trainer = L.Trainer(
        accelerator="cpu",
        devices=3,
        strategy="ddp",
        max_epochs=5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Detector(), DataLoader(data, batch_size=4))


if __name__ == "__main__":
    main()
