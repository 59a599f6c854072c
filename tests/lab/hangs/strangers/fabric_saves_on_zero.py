"""Lightning Fabric: the first process saves, through fabric.save, which waits for all."""

# mypy: ignore-errors
# No thread of one job; the kind of Lightning issues on fabric.save below a rank.
import sys
import time

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

EVERYBODY = "--healthy" in sys.argv


class Run:
    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        model = torch.nn.Linear(4, 1)
        self.model, self.optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.01))
        self.best = float("inf")

    def step(self, rows) -> float:
        self.optimizer.zero_grad()
        loss = self.model(rows).square().mean()
        self.fabric.backward(loss)
        self.optimizer.step()
        return float(self.fabric.all_reduce(loss.detach()))

    def keep_best(self, loss: float) -> None:
        if loss >= self.best:
            return
        self.best = loss
        if EVERYBODY or not self.fabric.global_rank:
            self.fabric.save("best.ckpt", {"model": self.model, "loss": loss})


def main() -> None:
    fabric = Fabric(accelerator="cpu", devices=3, strategy="ddp")
    fabric.launch()
    run = Run(fabric)
    data = fabric.setup_dataloaders(DataLoader(TensorDataset(torch.ones(9000, 4)), batch_size=4))
    for step, (rows,) in enumerate(data):
        time.sleep(0.2)
        loss = run.step(rows)
        print(f"rank {fabric.global_rank} step {step}", flush=True)
        if step >= 4:
            run.keep_best(loss)


if __name__ == "__main__":
    main()
