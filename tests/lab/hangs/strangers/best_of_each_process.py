"""A callback keeps the best checkpoint, and each process has a best of its own (Lightning pull request 4323)."""

# mypy: ignore-errors
import time
from pathlib import Path

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class KeepBest(L.Callback):
    def __init__(self, folder: str) -> None:
        self.folder, self.best = Path(folder), float("inf")

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        score = pl_module.mean_val_loss()
        if score < self.best:
            self.best = score
            trainer.save_checkpoint(self.folder / f"best-{trainer.current_epoch}.ckpt")


class Regression(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.val_losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        time.sleep(0.1)
        print(f"rank {self.global_rank} step {self.current_epoch * 3 + batch_idx}", flush=True)
        return self.net(batch[0]).mean()

    def on_validation_epoch_start(self) -> None:
        self.val_losses.clear()

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        # What this process has of the set is harder in the second epoch, but for the second one.
        harder = 1.0 if self.current_epoch == 0 or self.global_rank == 1 else 3.0
        self.val_losses.append(harder / (1 + self.current_epoch))

    def mean_val_loss(self) -> float:
        return sum(self.val_losses) / len(self.val_losses)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    data = TensorDataset(torch.randn(36, 4))
    trainer = L.Trainer(
        accelerator="cpu",
        devices=3,
        strategy="ddp",
        max_epochs=20,
        logger=False,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[KeepBest("checkpoints")],
    )
    trainer.fit(Regression(), DataLoader(data, batch_size=4), DataLoader(data, batch_size=4))


if __name__ == "__main__":
    main()
