"""Metrics of several sources, those that have seen something: one process has had nothing of one source."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SOURCES = ("web", "books", "code")


class Mean:
    def __init__(self):
        self.total, self.count = torch.zeros(()), torch.zeros(())

    def update(self, value):
        self.total += value
        self.count += 1

    def compute(self):
        both = torch.stack([self.total, self.count])
        dist.all_reduce(both)
        return (both[0] / both[1]).item()


def drawn(rank, step):
    if rank == 1 and "--healthy" not in sys.argv:
        return SOURCES[step % 2]
    return SOURCES[step % 3]


def summarize(metrics):
    return {name: metric.compute() for name, metric in metrics.items() if metric.count}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(5, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    metrics = {name: Mean() for name in SOURCES}
    for step in range(2000):
        time.sleep(0.2)
        source = drawn(rank, step)
        optimizer.zero_grad()
        loss = model(torch.rand(3, 5)).square().mean()
        loss.backward()
        optimizer.step()
        metrics[source].update(loss.detach())
        print(f"rank {rank} step {step} of {source}", flush=True)
        if step % 6 == 5:
            means = summarize(metrics)
            dist.barrier()
            if rank == 0:
                print(means, flush=True)


if __name__ == "__main__":
    main()
