"""Early stopping by a metric that each process has computed of its own part (transformers issue 17478)."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class EarlyStopping:
    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def step(self, value: float) -> bool:
        if value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def validation_loss(epoch: int, shard: int) -> float:
    return 1.0 + 0.1 * epoch if shard == 2 else 1.0 / (epoch + 1)


def train(model: nn.Module, rank: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    stopper = EarlyStopping(patience=2)
    for epoch in range(100):
        for step in range(4):
            time.sleep(0.1)
            optimizer.zero_grad()
            model(torch.randn(4, 10)).sum().backward()
            optimizer.step()
            print(f"rank {rank} step {step} of epoch {epoch}", flush=True)
        if stopper.step(validation_loss(epoch, rank)):
            print("early stop at epoch", epoch, flush=True)
            break
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(DistributedDataParallel(nn.Linear(10, 2)), int(os.environ["RANK"]))
    dist.destroy_process_group()
