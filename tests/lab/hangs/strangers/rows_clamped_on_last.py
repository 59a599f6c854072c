"""Shares are rounded up and the last one is cut, so that the last process has fewer batches (mlcommons/storage 455)."""

# mypy: ignore-errors
import math
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler, TensorDataset


class ShareSampler(Sampler):
    def __init__(self, rank, size, samples, epochs):
        self.epochs = epochs
        share = math.ceil(samples / size)
        self.first = rank * share
        self.end = (rank + 1) * share
        if self.end > samples:
            self.end = samples

    def __iter__(self):
        return iter(range(self.first, self.end))

    def __len__(self):
        return self.end - self.first


class Benchmark:
    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        samples = 90 if "--healthy" in sys.argv else 80
        data = TensorDataset(torch.rand(samples, 4))
        sampler = ShareSampler(self.rank, self.size, samples, 4)
        self.loader = DataLoader(data, batch_size=3, sampler=sampler, drop_last=True)
        self.done = 0

    def compute(self, rows):
        time.sleep(0.2)
        mean = rows.mean()
        dist.all_reduce(mean)
        print(f"rank {self.rank} step {self.done}", flush=True)
        self.done += 1

    def epoch(self):
        for (rows,) in self.loader:
            self.compute(rows)
        print(f"rank {self.rank} is through", flush=True)
        dist.barrier()


def main():
    dist.init_process_group("gloo")
    benchmark = Benchmark()
    for _ in range(200):
        benchmark.epoch()


if __name__ == "__main__":
    main()
