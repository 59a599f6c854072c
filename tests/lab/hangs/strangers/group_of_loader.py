"""Whoever begins to read a data set makes a group for it, and one process reads another one (returnn issue 1454)."""

# mypy: ignore-errors
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist


class SyncedLoader:
    """The seed of an epoch is agreed on when its iterator is made."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __iter__(self):
        group = dist.new_group(backend="gloo", timeout=timedelta(hours=2))
        dist.destroy_process_group(group)
        for _ in range(self.batches):
            time.sleep(0.2)
            yield torch.randn(4, 8)


class Engine:
    def __init__(self) -> None:
        self.model = torch.nn.Linear(8, 1)
        self.is_writer = int(os.environ["RANK"]) == 0

    def init_train_epoch(self, epoch: int) -> None:
        for step, batch in enumerate(SyncedLoader(3)):
            loss = self.model(batch).mean().detach()
            dist.all_reduce(loss)
            print(f"rank {os.environ['RANK']} epoch {epoch} step {step}", flush=True)

    def eval_model(self) -> float:
        total = 0.0
        for batch in SyncedLoader(2):
            total += float(self.model(batch).mean())
        return total

    def train(self, epochs: int) -> None:
        for epoch in range(epochs):
            self.init_train_epoch(epoch)
            if self.is_writer:
                print("dev score", self.eval_model(), flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Engine().train(epochs=10)
