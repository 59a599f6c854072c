"""When anything fails in `fit` a checkpoint is written, also where only one process has failed (Lightning 6430)."""

import os
import time
from typing import Any

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        time.sleep(0.2)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        if batch_idx == 5 and self.global_rank == 1:
            raise ValueError("image is truncated")
        return self.layer(batch).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    trainer = L.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Classifier()
    try:
        trainer.fit(model, DataLoader(torch.randn(4000, 8), batch_size=4))
    except Exception as error:
        print("saving what there is:", error, flush=True)
        trainer.save_checkpoint("on_exception.ckpt")
        raise


if __name__ == "__main__":
    main()
