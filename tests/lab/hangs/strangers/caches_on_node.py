"""A cache is built where there is none, and the others are waited for in the same branch (after returnn issue 1638)."""

# mypy: ignore-errors
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


def local_disk(rank: int) -> Path:
    """The disk of the node; one has the cache of an earlier run."""
    disk = Path(f"disk-{os.getppid()}-{rank}")
    disk.mkdir(exist_ok=True)
    if rank == 0:
        (disk / "tokens.pt").write_bytes(b"x" * 64)
    return disk


def tokenized(disk: Path, rank: int) -> Path:
    cache = disk / "tokens.pt"
    if not os.path.isfile(cache):
        time.sleep(0.5)
        cache.write_bytes(b"x" * 64)
        print(f"rank {rank} has tokenized", flush=True)
        dist.barrier()
    return cache


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank} begins", flush=True)
    data = tokenized(local_disk(rank), rank).read_bytes()
    vocabulary = [len(data)]
    dist.broadcast_object_list(vocabulary, src=1)
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(vocabulary[0]))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
