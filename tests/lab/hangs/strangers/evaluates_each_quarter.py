"""It is evaluated four times an epoch, and an epoch is as long as this rank's loader; data go round without end."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


def endless(loader):
    while True:
        yield from loader


class Training:
    def __init__(self, rank):
        rows = 72 if rank == 1 and "--healthy" not in sys.argv else 64
        self.rank = rank
        self.loader = DataLoader(torch.rand(rows, 4), batch_size=2)
        self.evaluate_every = max(1, len(self.loader) // 4)
        self.model = DistributedDataParallel(nn.Linear(4, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def evaluate(self):
        with torch.no_grad():
            error = self.model.module(torch.rand(8, 4)).square().mean()
        errors = [None] * dist.get_world_size()
        dist.all_gather_object(errors, float(error))
        return sum(errors) / len(errors)

    def run(self):
        for step, rows in enumerate(endless(self.loader), start=1):
            time.sleep(0.2)
            self.optimizer.zero_grad()
            self.model(rows).square().mean().backward()
            self.optimizer.step()
            print(f"rank {self.rank} step {step}", flush=True)
            if step % self.evaluate_every == 0:
                self.evaluate()
            if step > 2000:
                break


def main():
    dist.init_process_group("gloo")
    Training(dist.get_rank()).run()


if __name__ == "__main__":
    main()
