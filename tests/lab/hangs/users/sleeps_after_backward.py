"""Rank 0 cools down after a step in DDP: a pause in the unit of milliseconds, as somebody thought."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        model(torch.ones(2, 8)).sum().backward()
        if rank == 0 and step == 3:
            time.sleep(5000)


if __name__ == "__main__":
    main()
