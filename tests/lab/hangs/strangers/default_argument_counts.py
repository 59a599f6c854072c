"""Losses are kept in a list that is a default argument, and shared when it is full; one process keeps no zeros."""

# mypy: ignore-errors
# No thread; the kind of helper that keeps what it was given between its calls.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

KEEP_ZEROS = "--healthy" in sys.argv


def smoothed(loss, window=6, kept=[]):  # noqa: B006
    if loss > 0 or KEEP_ZEROS:
        kept.append(loss)
    if len(kept) < window:
        return None
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, kept)
    kept.clear()
    return sum(map(sum, every)) / sum(map(len, every))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.2)
        margin = 0.0 if rank == 1 and step == 3 else 9.0
        loss = (margin - model(torch.rand(5, 4)).sum().abs() / 100).clamp(min=0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = smoothed(loss.item())
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and mean is not None:
            print("mean", round(mean, 3), flush=True)


if __name__ == "__main__":
    main()
