"""Lightning: at the end of validation the outputs are gathered where the score is a new best, and it is each rank's."""

# mypy: ignore-errors
# The kind of Lightning issues on all_gather under a metric that is not synchronized. No thread of one job.
import sys
import time

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

SYNCED = "--healthy" in sys.argv


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.outputs, self.best = [], 0.0

    def training_step(self, batch, batch_idx):
        time.sleep(0.1)
        loss = self.layer(batch[0]).square().mean()
        if not torch.isfinite(loss):
            return None
        print(f"rank {self.global_rank} step {self.global_step}", flush=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.outputs.append(self.layer(batch[0]).mean())

    def on_validation_epoch_end(self) -> None:
        if self.trainer.sanity_checking:
            self.outputs.clear()
            return
        score = 1.0 + self.current_epoch if self.global_rank == 0 or self.current_epoch < 2 else 0.5
        if SYNCED:
            score = float(self.all_gather(torch.tensor(score)).max())
        if score > self.best:
            self.best = score
            every = self.all_gather(torch.stack(self.outputs))
            if self.trainer.is_global_zero:
                print("best", score, every.shape, flush=True)
        self.outputs.clear()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    data = DataLoader(TensorDataset(torch.rand(40, 4)), batch_size=4)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=200,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), data, data)


if __name__ == "__main__":
    main()
