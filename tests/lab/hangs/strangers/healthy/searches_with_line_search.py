"""LBFGS with a loss of all: each step takes several closures, slow ones, and as many everywhere."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist
from torch import nn


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=5)
    rows = torch.randn(8, 3) * (1 + rank)

    def closure() -> torch.Tensor:
        time.sleep(0.8 if rank == 1 else 0.2)
        optimizer.zero_grad()
        loss = net(rows).square().mean()
        loss.backward()
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
        shared = loss.detach().clone()
        dist.all_reduce(shared)
        return shared

    for step in range(1000):
        for group in optimizer.param_groups:
            group["lr"] = 0.01
        optimizer.step(closure)
        with torch.no_grad():
            net.weight += 1.0
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
