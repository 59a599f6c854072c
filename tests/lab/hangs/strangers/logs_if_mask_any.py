"""A loss of masked tokens is logged over all processes where this one has masked tokens (Lightning 20492, the kind)."""

# mypy: ignore-errors
import time

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset


class Masked(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        output = self.layer(batch[0])
        mask = batch[1] > 0
        if self.global_rank == 1 and batch_idx == 6:
            mask = torch.zeros_like(mask)
        if mask.any():
            self.log("masked_loss", output[mask].mean(), on_step=True, sync_dist=True)
        return output.square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    loader = DataLoader(TensorDataset(torch.randn(400, 4), torch.ones(400)), batch_size=4)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
    )
    trainer.fit(Masked(), loader)


if __name__ == "__main__":
    main()
