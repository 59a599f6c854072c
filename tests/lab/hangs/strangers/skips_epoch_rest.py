"""A hook of the module says that the rest of an epoch is to be skipped, by what this process has seen."""

# mypy: ignore-errors
# No thread: after on_train_batch_start, which may return -1.
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Module(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.tokens = torch.nn.Linear(4, 1), 0

    def on_train_batch_start(self, batch, batch_idx):
        self.tokens += 100 + 50 * self.global_rank
        if self.tokens > 1000:
            return -1
        return None

    def training_step(self, batch, batch_idx):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        return self.layer(batch[0]).square().mean()

    def on_train_epoch_end(self) -> None:
        self.all_gather(torch.tensor(float(self.tokens)))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    loader = DataLoader(TensorDataset(torch.randn(400, 4)), batch_size=2)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(Module(), loader)


if __name__ == "__main__":
    main()
