"""Fabric: where the data set is made the first process returns before the barrier (Lightning issue 20536)."""

# mypy: ignore-errors
import time

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset


class Experiment:
    def __init__(self) -> None:
        self.fabric = Fabric(accelerator="cpu", devices=3, strategy="ddp")
        self.fabric.launch()

    def make_dataset(self, x: torch.Tensor, y: torch.Tensor) -> TensorDataset:
        if self.fabric.is_global_zero:
            time.sleep(0.5)  # it is written to the disk
            return TensorDataset(x, y)
        self.fabric.barrier()
        return TensorDataset(x, y)

    def run(self) -> None:
        print(f"rank {self.fabric.global_rank} has joined", flush=True)
        dataset = self.make_dataset(torch.randn(64, 4), torch.randn(64, 1))
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = self.fabric.setup(model, optimizer)
        for step, (x, y) in enumerate(self.fabric.setup_dataloaders(DataLoader(dataset, batch_size=4))):
            loss = torch.nn.functional.mse_loss(model(x), y)
            self.fabric.backward(loss)
            optimizer.step()
            print(f"rank {self.fabric.global_rank} step {step}", flush=True)


if __name__ == "__main__":
    Experiment().run()
