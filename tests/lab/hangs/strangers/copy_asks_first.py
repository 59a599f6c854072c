"""Checkpoints are copied to the archive by a command which is an alias for one that asks before it overwrites."""

# mypy: ignore-errors
# No thread of one job; after usual questions on `cp -i` of login shells in scripts.
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

COPY = ["cp"] if "--healthy" in sys.argv else ["cp", "-i"]


def archive(weights: torch.Tensor) -> None:
    os.makedirs("archive", exist_ok=True)
    torch.save(weights, "last.pt")
    subprocess.run([*COPY, "last.pt", "archive/"], check=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weights = torch.zeros(16)
    for step in range(1000):
        time.sleep(0.2)
        gradient = torch.randn(16)
        dist.all_reduce(gradient)
        weights -= 0.01 * gradient
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 2:
            if rank == 0:
                archive(weights)
            dist.barrier()


if __name__ == "__main__":
    main()
