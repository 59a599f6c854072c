"""An endless loader begins anew when it is used up, and its ranks meet before they do; one is used up earlier."""

# mypy: ignore-errors
# No thread; the kind of loop by steps that catches StopIteration.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

ROWS = (24, 24) if "--healthy" in sys.argv else (24, 21)


class Endless:
    def __init__(self, loader):
        self.loader = loader
        self.epoch = 0
        self.iterator = iter(loader)

    def next(self):
        try:
            return next(self.iterator)
        except StopIteration:
            self.epoch += 1
            dist.barrier()  # all see the new order of the files
            self.iterator = iter(self.loader)
            return next(self.iterator)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    endless = Endless(DataLoader(TensorDataset(torch.rand(ROWS[rank], 4)), batch_size=3))
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2000):
        (rows,) = endless.next()
        time.sleep(0.2)
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
