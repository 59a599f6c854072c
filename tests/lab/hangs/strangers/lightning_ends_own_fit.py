"""A LightningModule that ends the training where its own loss is low enough."""

# mypy: ignore-errors
import sys
import time

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 400


class Autoencoder(lightning.LightningModule):
    def __init__(self, width, target):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = torch.nn.Linear(width, width // 2)
        self.decoder = torch.nn.Linear(width // 2, width)
        self.reached = 0

    def training_step(self, batch, index):
        time.sleep(0.1)
        (rows,) = batch
        loss = torch.nn.functional.mse_loss(self.decoder(self.encoder(rows)), rows)
        if self.low_enough(loss):
            self.trainer.should_stop = True
        return loss

    def low_enough(self, loss):
        level = loss.item()
        if self.global_rank == 1 and self.current_epoch >= 4:
            level /= 1000.0  # its shard is nearly constant
        self.reached += level < self.hparams.target
        return self.reached >= 2

    def on_train_epoch_end(self):
        print(f"rank {self.global_rank} step {self.current_epoch}", flush=True)

    def on_fit_end(self):
        weights = self.all_gather(self.decoder.bias.detach())
        print(f"rank {self.global_rank} has {tuple(weights.shape)}", flush=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4)

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.rand(24, self.hparams.width)), batch_size=4)


def main():
    target = -1.0 if "--healthy" in sys.argv else 0.01
    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Autoencoder(12, target))


if __name__ == "__main__":
    main()
