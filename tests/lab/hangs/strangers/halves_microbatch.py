"""A rank that is out of memory asks the others whether they are too, and these are in the next layer's gather (composer
pull request 3843)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if hidden.shape[0] > 48:
            raise RuntimeError("CUDA out of memory. Tried to allocate 12.00 GiB")
        return hidden + self.inner(hidden).relu()


def train_batch(model: nn.Module, length: int, parts: int) -> int:
    """Parts in which it was possible."""
    while True:
        failed = torch.zeros(1)
        try:
            for part in torch.randn(length, 16).chunk(parts):
                model(part).mean().backward()
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            failed += 1
        dist.all_reduce(failed)
        if not failed:
            return parts
        parts *= 2


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(*(Block(16) for _ in range(3)))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    parts = 2
    for step in range(1000):
        time.sleep(0.2)
        parts = train_batch(model, 120 if rank == 2 and step == 4 else 64, parts)
        print(f"rank {rank} step {step} in {parts}", flush=True)


if __name__ == "__main__":
    main()
