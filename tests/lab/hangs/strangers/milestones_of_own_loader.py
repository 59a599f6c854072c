"""Checkpoints are written at tenths of an epoch, of which each process knows its own length."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Plan:
    def __init__(self, length, parts):
        self.marks = frozenset(length * part // parts for part in range(1, parts + 1))

    def due(self, step):
        return step in self.marks


def save(model, step):
    total = torch.stack([weight.detach().norm() for weight in model.parameters()]).sum()
    sums = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, total)
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), f"step-{step}.pt")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rows = 100 if rank == 0 or "--healthy" in sys.argv else 80
    plan = Plan(rows, 10)
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 2000):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(2, 4)).sum().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        if plan.due(step):
            save(model, step)


if __name__ == "__main__":
    main()
