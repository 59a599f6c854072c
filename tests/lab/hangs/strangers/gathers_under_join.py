"""Inputs may be uneven under `join()`, which answers for who is through, but not what the program gathers by itself."""

# mypy: ignore-errors
# No thread of one job; after the documentation of torch.distributed.algorithms.Join.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

OWN_GATHER = "--healthy" not in sys.argv


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = [torch.randn(2, 4) for _ in range(6 if rank == 1 else 9)]
    step = 0
    for epoch in range(200):
        with model.join():
            for batch in inputs:
                time.sleep(0.3)
                print(f"rank {rank} step {step}", flush=True)
                step += 1
                loss = model(batch).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if OWN_GATHER:
                    losses = [torch.zeros(()) for _ in range(dist.get_world_size())]
                    dist.all_gather(losses, loss.detach())
        print(f"rank {rank} is through epoch {epoch}", flush=True)


if __name__ == "__main__":
    main()
