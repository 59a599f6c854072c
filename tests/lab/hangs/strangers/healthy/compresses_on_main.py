"""The first process compresses what it has saved, while the others are at the barrier behind it."""

# mypy: ignore-errors
import os
import time
import zlib

import torch
import torch.distributed as dist


def archive() -> int:
    data = os.urandom(1 << 20)
    begin, size = time.monotonic(), 0
    while time.monotonic() - begin < 5.0:
        size += len(zlib.compress(data, 9))
    return size


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)
        if step % 4 == 2:
            if rank == 0:
                archive()
            dist.barrier()


if __name__ == "__main__":
    main()
