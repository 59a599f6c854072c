"""Lightning with two ranks on this machine, started as `python preset_local_rank.py`: the second is its own affair."""

import time

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class Small(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        time.sleep(0.7)
        print(f"step {number} of rank {self.global_rank} of {self.trainer.world_size}", flush=True)
        loss: torch.Tensor = self.layer(batch[0]).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(Small(), DataLoader(TensorDataset(torch.ones(10_000, 4)), batch_size=1))


if __name__ == "__main__":
    main()
