"""Gradients are averaged by hand, but for those that are None: a head whose task was not in the batch has none."""

# mypy: ignore-errors
# No thread: after usual code for more than one task.
import time

import torch
import torch.distributed as dist
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 6, bias=False)
        self.heads = nn.ModuleDict({"depth": nn.Linear(6, 6, bias=False), "normal": nn.Linear(6, 6, bias=False)})

    def forward(self, rows: torch.Tensor, tasks: list[str]) -> torch.Tensor:
        hidden = self.body(rows)
        return sum(self.heads[task](hidden).square().mean() for task in tasks)


def tasks_of(rank: int, step: int) -> list[str]:
    return ["depth"] if rank == 1 and step == 5 else ["depth", "normal"]


def average(model: nn.Module, world: int) -> None:
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        dist.all_reduce(parameter.grad)
        parameter.grad /= world


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = TwoHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(4, 6), tasks_of(rank, step)).backward()
        average(model, world)
        optimizer.step()
        dist.barrier()


if __name__ == "__main__":
    main()
