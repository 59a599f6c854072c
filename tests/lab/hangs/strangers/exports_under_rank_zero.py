"""Lightning: a callback writes a checkpoint for deployment, and is decorated so that only the first process does
(the kind of ZettaAI/zetta_utils pull request 969)."""

# mypy: ignore-errors
import sys
import time

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch.utils.data import DataLoader, TensorDataset

ALL = "--healthy" in sys.argv


class Deploys(L.Callback):
    def __init__(self, every: int) -> None:
        self.every = every

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if batch_idx % self.every == self.every - 1:
            self.export(trainer)

    def export(self, trainer):
        trainer.save_checkpoint("deploy.ckpt", weights_only=True)


if not ALL:
    Deploys.export = rank_zero_only(Deploys.export)


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)

    def training_step(self, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        inputs, labels = batch
        return torch.nn.functional.cross_entropy(self.layer(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def main() -> None:
    data = TensorDataset(torch.randn(6000, 8), torch.randint(3, (6000,)))
    trainer = L.Trainer(
        accelerator="cpu",
        devices=3,
        strategy="ddp",
        max_epochs=1,
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        callbacks=[Deploys(every=6)],
    )
    trainer.fit(Classifier(), DataLoader(data, batch_size=4))


if __name__ == "__main__":
    main()
