"""Weights are averaged every fourth step; a step whose gradients are bad is no step of the averager."""

# mypy: ignore-errors
# No thread of one job; post-local SGD of torch.distributed.algorithms.model_averaging.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager

BAD_BATCH = "--healthy" not in sys.argv


def main() -> None:
    dist.init_process_group("gloo")
    rank, model = dist.get_rank(), nn.Linear(4, 1)
    averager = PeriodicModelAverager(period=4, warmup_steps=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        batch = torch.randn(4, 4)
        if BAD_BATCH and rank == 2 and step == 3:
            batch[0, 0] = float("nan")
        loss = model(batch).square().mean()
        loss.backward()
        good = all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
        if good:
            optimizer.step()
            averager.average_parameters(model.parameters())
        optimizer.zero_grad()
        losses = [torch.zeros(()) for _ in range(dist.get_world_size())]
        dist.all_gather(losses, loss.detach())
        if rank == 0 and step % 10 == 0:
            print("loss", torch.stack(losses).nanmean().item(), flush=True)


if __name__ == "__main__":
    main()
