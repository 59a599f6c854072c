"""FSDP2: gradients are kept local until this rank has seen enough tokens for a step."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

TOKENS = 96


class Step:
    def __init__(self, model):
        self.model, self.tokens = model, 0
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def micro(self, rows):
        self.tokens += len(rows)
        enough = self.tokens >= TOKENS
        self.model.set_requires_gradient_sync(enough)
        self.model(rows).square().mean().backward()
        if enough:
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.tokens = 0


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    step = Step(model)
    for number in range(2000):
        time.sleep(0.2)
        short = rank == 1 and number == 5 and "--healthy" not in sys.argv
        step.micro(torch.randn(20 if short else 32, 4))
        print(f"rank {rank} step {number}", flush=True)


if __name__ == "__main__":
    main()
