"""A progress bar shows a metric of all processes, and there is a bar on the first one only (Lightning issue 21264)."""

# mypy: ignore-errors
import lightning as L
import torch
from lightning.pytorch.callbacks import TQDMProgressBar
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryAccuracy


class MetricsBar(TQDMProgressBar):
    def get_metrics(self, trainer: L.Trainer, pl_module: L.LightningModule) -> dict:
        items = super().get_metrics(trainer, pl_module)
        items.pop("v_num", None)
        items["acc"] = f"{pl_module.accuracy.compute():.2f}"
        return items


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 1)
        self.accuracy = BinaryAccuracy()

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        features, labels = batch
        logits = self.net(features).squeeze(1)
        self.accuracy.update(logits.sigmoid(), labels)
        print(f"rank {self.global_rank} step {batch_idx}", flush=True)
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.float())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    data = TensorDataset(torch.randn(600, 4), torch.randint(0, 2, (600,)))
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        callbacks=[MetricsBar(refresh_rate=5)],
    )
    trainer.fit(Classifier(), DataLoader(data, batch_size=4))


if __name__ == "__main__":
    main()
