"""A rank whose gradients are not finite skips the step of a sharded optimizer, which broadcasts (fairscale issue
754)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer


class GradScaler:
    """One that looks at its own gradients only."""

    def __init__(self) -> None:
        self.scale = 1024.0

    def step(self, optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
        gradients = [parameter.grad for parameter in model.parameters()]
        if not all(torch.isfinite(gradient).all() for gradient in gradients):
            self.scale /= 2
            return
        optimizer.step()


def main() -> None:
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.01)
    scaler = GradScaler()
    for step in range(1000):
        time.sleep(0.2)
        optimizer.zero_grad()
        loss = model(torch.randn(4, 16)).pow(2).mean()
        if rank == 1 and step == 5:
            loss = loss * float("inf")
        loss.backward()
        scaler.step(optimizer, model)
        dist.all_reduce(mean := loss.detach())
        print(f"rank {rank} step {step} {mean / ranks:.3f}", flush=True)


if __name__ == "__main__":
    main()
