"""Centres of clusters are averaged until they rest on all; one process has many more points than the others."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


def fit(points: torch.Tensor, seconds: float) -> torch.Tensor:
    centres = points[:4].clone()
    dist.broadcast(centres, src=0)
    shift = torch.ones(1)
    while float(shift) > 1e-9:
        nearest = torch.cdist(points, centres).argmin(1)
        own = torch.stack([points[nearest == number].sum(0) for number in range(4)])
        time.sleep(seconds)
        dist.all_reduce(own)
        moved = own / own.norm()
        shift = (moved - centres).norm().reshape(1)
        dist.all_reduce(shift, op=dist.ReduceOp.MAX)
        centres = moved
    return centres


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        torch.manual_seed(step + rank)
        fit(torch.randn(100, 2), 0.6 if rank == 2 else 0.05)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
