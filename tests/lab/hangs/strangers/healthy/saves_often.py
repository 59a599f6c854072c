"""Lightning saves every few steps to a disk that takes seconds for it."""

import time
import warnings

import lightning
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


class SlowDisk(TorchCheckpointIO):
    def save_checkpoint(self, checkpoint, path, storage_options=None):
        for _ in range(4):
            time.sleep(1.0)
        super().save_checkpoint(checkpoint, path, storage_options)


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(6, 1)

    def training_step(self, batch, batch_idx):
        time.sleep(0.3)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        return self.net(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.randn(4000, 6)), batch_size=2)
    saves = lightning.pytorch.callbacks.ModelCheckpoint(dirpath="saved", every_n_train_steps=3)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, callbacks=[saves], plugins=[SlowDisk()], **quiet
    )
    trainer.fit(Model(), loader)
