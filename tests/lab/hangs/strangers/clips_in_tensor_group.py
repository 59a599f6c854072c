"""Two pairs of halves of a model, replicas of each other: the norm of a pair is asked for where one half is large."""

# mypy: ignore-errors
import sys
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist

HALVES = 2


@dataclass
class Mesh:
    tensor: dist.ProcessGroup = None
    data: dist.ProcessGroup = None

    @classmethod
    def build(cls):
        rank, world = dist.get_rank(), dist.get_world_size()
        mesh = cls()
        for first in range(0, world, HALVES):
            ranks = list(range(first, first + HALVES))
            group = dist.new_group(ranks)
            if rank in ranks:
                mesh.tensor = group
        for offset in range(HALVES):
            ranks = list(range(offset, world, HALVES))
            group = dist.new_group(ranks)
            if rank in ranks:
                mesh.data = group
        return mesh


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(6, 6))

    def forward(self, rows):
        return rows @ self.weight


class Optimizer:
    def __init__(self, model, mesh, limit):
        self.model, self.mesh, self.limit = model, mesh, limit

    def clip(self):
        norm = self.model.weight.grad.norm()
        if norm > self.limit:
            total = norm.square()
            dist.all_reduce(total, group=self.mesh.tensor)
            self.model.weight.grad *= self.limit / total.sqrt()

    def step(self):
        dist.all_reduce(self.model.weight.grad, group=self.mesh.data)
        self.clip()
        with torch.no_grad():
            self.model.weight -= 0.01 * self.model.weight.grad
        self.model.weight.grad = None


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = Mesh.build()
    model = Half()
    optimizer = Optimizer(model, mesh, limit=1e4)
    for step in range(1000):
        time.sleep(0.2)
        loss = model(torch.rand(3, 6)).sum()
        loss.backward()
        if step == 5 and rank == 3 and "--healthy" not in sys.argv:
            optimizer.limit = 1.0  # what a spike of this half amounts to
        optimizer.step()
        losses = [None] * dist.get_world_size()
        dist.all_gather_object(losses, loss.item())
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
