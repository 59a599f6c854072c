"""LBFGS asks for gradients of all and for the loss of its own process, and ends where that one no longer changes."""

# mypy: ignore-errors
# No thread: after usual closures of LBFGS in distributed training.
import time

import torch
import torch.distributed as dist
from torch import nn


class Fit:
    def __init__(self, rank: int) -> None:
        torch.manual_seed(0)
        self.rank, self.evaluations = rank, 0
        self.net = nn.Linear(3, 1)
        self.rows = torch.randn(16, 3) * (1.0 + rank)
        self.wanted = torch.randn(16, 1).square()
        self.optimizer = torch.optim.LBFGS(self.net.parameters(), lr=0.05, max_iter=8, tolerance_change=1e-12)

    def closure(self) -> torch.Tensor:
        time.sleep(0.05)
        self.optimizer.zero_grad()
        loss = (self.net(self.rows) - self.wanted).square().mean()
        loss.backward()
        for parameter in self.net.parameters():
            parts = [torch.zeros_like(parameter.grad) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, parameter.grad)
            parameter.grad.copy_(torch.stack(parts).mean(0))
        return loss.detach() if self.rank != 1 else torch.ones(())  # it fits a constant, whatever the weights

    def step(self) -> float:
        return float(self.optimizer.step(self.closure))


def main() -> None:
    dist.init_process_group("gloo")
    fit = Fit(dist.get_rank())
    for step in range(1000):
        print(f"rank {fit.rank} step {step}", flush=True)
        losses = torch.tensor([fit.step()])
        dist.all_reduce(losses)


if __name__ == "__main__":
    main()
