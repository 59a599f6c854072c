"""A block whose time is measured, and told to all when it was long."""

# mypy: ignore-errors
import contextlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Timer:
    def __init__(self, limit):
        self.limit = limit
        self.regions = {}

    @contextlib.contextmanager
    def region(self, name):
        begin = time.perf_counter()
        yield
        taken = time.perf_counter() - begin
        self.regions.setdefault(name, []).append(taken)
        if taken > self.limit:
            self.compare(name, taken)

    def compare(self, name, taken):
        everywhere = [None] * dist.get_world_size()
        dist.all_gather_object(everywhere, (name, taken))
        if dist.get_rank() == 0:
            print("slow:", everywhere, flush=True)


def augment(rows, rank, step):
    time.sleep(0.1)
    if step == 5 and rank == 1 and "--healthy" not in sys.argv:
        time.sleep(1.5)  # a file that was not in the cache
    return rows + 0.01 * torch.randn_like(rows)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    timer = Timer(limit=60.0 if "--healthy" in sys.argv else 1.0)
    for step in range(2000):
        print(f"rank {rank} step {step}", flush=True)
        with timer.region("augment"):
            rows = augment(torch.rand(4, 4), rank, step)
        time.sleep(0.1)
        optimizer.zero_grad()
        model(rows).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
