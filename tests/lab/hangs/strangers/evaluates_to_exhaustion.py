"""A finite validation set is read to its end under FSDP2, whose forward pass is a collective (prime-rl issue 2515)."""

import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def packed(rank: int, split: str) -> Iterator[torch.Tensor]:
    """Sequences of one length, made of samples of several: each rank gets as many as its samples fill."""
    generator = torch.Generator().manual_seed(rank)
    lengths = [40] * 12 if split == "train" or rank != 1 else [40] * 7
    left = 0
    for length in lengths:
        left += length
        while left >= 80:
            left -= 80
            yield torch.randn(2, 12, generator=generator)


@torch.no_grad()
def run_eval_loop(model: nn.Module, rank: int) -> float:
    total, seen = torch.zeros(1), torch.zeros(1)
    for batch in packed(rank, "validation"):
        total += model(batch).pow(2).mean()
        seen += 1
    dist.all_reduce(total)
    dist.all_reduce(seen)
    return float(total / seen)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(nn.Linear(12, 12), nn.GELU(), nn.Linear(12, 12))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.2)
        model(torch.randn(2, 12)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 3:
            print("validation", run_eval_loop(model, rank), flush=True)


if __name__ == "__main__":
    main()
