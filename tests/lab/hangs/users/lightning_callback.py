"""Lightning: a callback writes its report on the first rank only, and has a barrier at its end."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Report(lightning.Callback):
    def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
        if trainer.is_global_zero and trainer.global_step == 4:
            trainer.strategy.barrier("report")


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        print(f"rank {self.global_rank} step {index}", flush=True)
        loss: torch.Tensor = self.layer(batch[0]).mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, callbacks=[Report()],
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Model(), DataLoader(TensorDataset(torch.ones(400, 4)), batch_size=4))
