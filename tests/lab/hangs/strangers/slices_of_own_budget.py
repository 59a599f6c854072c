"""A stream is cut to as many batches as a process can afford, which each has measured for itself."""

# mypy: ignore-errors
import itertools
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def stream(seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.rand(4, 6, generator=generator)


def affordable(seconds, rank, epoch):
    slow = rank == 1 and epoch == 1 and "--healthy" not in sys.argv
    return int(seconds / (0.5 if slow else 0.2))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(6, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    source, step = stream(rank), 0
    for epoch in range(300):
        budget = affordable(2.0, rank, epoch)
        for rows in itertools.islice(source, budget):
            time.sleep(0.2)
            optimizer.zero_grad()
            model(rows).mean().backward()
            optimizer.step()
            print(f"rank {rank} step {step}", flush=True)
            step += 1
        seen = torch.tensor([float(step)])
        dist.reduce(seen, 0)


if __name__ == "__main__":
    main()
