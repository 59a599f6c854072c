"""A prefetcher gives None when its data is used up, after which the epochs are put together."""

# mypy: ignore-errors
# No thread; the kind of prefetcher that NVIDIA's examples had.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

EVEN = "--healthy" in sys.argv


class Prefetcher:
    def __init__(self, rows):
        self.rows = iter(rows)
        self.preload()

    def preload(self):
        self.upcoming = next(self.rows, None)

    def next(self):
        batch = self.upcoming
        if batch is not None:
            self.preload()
        return batch


def rows_of(rank, epoch):
    count = 6 if EVEN or rank == 0 or epoch != 1 else 7
    return [torch.rand(2, 5) for _ in range(count)]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    net = DistributedDataParallel(torch.nn.Linear(5, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(400):
        prefetcher = Prefetcher(rows_of(rank, epoch))
        while (batch := prefetcher.next()) is not None:
            time.sleep(0.1)
            optimizer.zero_grad()
            net(batch).mean().backward()
            optimizer.step()
        print(f"rank {rank} step {epoch}", flush=True)
        counts = [None] * dist.get_world_size()
        dist.all_gather_object(counts, epoch)


if __name__ == "__main__":
    main()
