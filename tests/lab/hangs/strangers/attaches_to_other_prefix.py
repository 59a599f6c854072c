"""Ranks meet in a file whose name has a random number in it that they have each drawn (streaming issue 145)."""

import mmap
import random
import time

import torch
import torch.distributed as dist

TICK = 0.25


class WorkerBarrier:
    def __init__(self, rank: int, prefix: int) -> None:
        name = f"{prefix:06}_barrier"
        if rank == 0:
            with open(name, "wb") as new:
                new.write(bytes(16))
        self.memory = self._attached(name)

    def _attached(self, name: str) -> mmap.mmap:
        while True:
            try:
                with open(name, "r+b") as file:
                    return mmap.mmap(file.fileno(), 16)
            except FileNotFoundError:
                time.sleep(TICK)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(3):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
    prefix = random.Random().randrange(1_000_000)
    WorkerBarrier(rank, prefix)
    for step in range(3, 1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
