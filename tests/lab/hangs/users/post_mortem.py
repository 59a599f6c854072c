"""Somebody has left a post-mortem debugger in the training loop; one rank has raised."""

import pdb
import sys

import torch
import torch.distributed as dist


def train_step(rank: int, step: int) -> torch.Tensor:
    if rank == 2 and step == 3:
        raise ValueError("NaN in loss")
    return torch.ones(4)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        try:
            loss = train_step(rank, step)
        except ValueError:
            pdb.post_mortem(sys.exc_info()[2])
            raise
        dist.all_reduce(loss)


if __name__ == "__main__":
    main()
