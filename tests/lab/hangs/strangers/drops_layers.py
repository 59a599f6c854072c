"""Layers are dropped by chance, on each process by its own, and all of them are sharded (fairscale issue 796)."""

# mypy: ignore-errors
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Encoder(nn.Module):
    def __init__(self, layers: int, layerdrop: float, seed: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(layers))
        self.layerdrop, self.random = layerdrop, random.Random(seed)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if self.training and self.random.random() < self.layerdrop:
                continue
            hidden = layer(hidden)
        return hidden


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = Encoder(4, layerdrop=0.05, seed=rank)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for step in range(1000):
        time.sleep(0.2)
        loss = model(torch.randn(2, 16)).mean()
        loss.backward()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
