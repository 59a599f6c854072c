"""Processes of a node read the batch that the first of them puts into shared memory, and wait until its number has
come; a number is as large as a byte."""

# mypy: ignore-errors
# No thread of one job; after usual designs of node-wide data caches.
import os
import sys
import time
from multiprocessing import resource_tracker, shared_memory

import torch
import torch.distributed as dist

FIRST = 0 if "--healthy" in sys.argv else 250


class Board:
    def __init__(self, rank: int) -> None:
        name = f"board-{os.environ['MASTER_PORT']}-{os.getppid()}"
        if rank == 0:
            self.memory = shared_memory.SharedMemory(name, create=True, size=64)
        dist.barrier()
        if rank > 0:
            self.memory = shared_memory.SharedMemory(name)
            resource_tracker.unregister(self.memory._name, "shared_memory")
        dist.barrier()
        if rank == 0:
            self.memory.unlink()

    def publish(self, number: int, value: int) -> None:
        self.memory.buf[1] = value
        self.memory.buf[0] = number % 256

    def wait_for(self, number: int) -> int:
        while self.memory.buf[0] != number:
            time.sleep(0.005)
        return self.memory.buf[1]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    board, total = Board(rank), torch.zeros(1)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0:
            board.publish(FIRST + step, step % 5)
        value = board.wait_for(FIRST + step) if rank == 1 else 0
        dist.all_reduce(total.fill_(float(value)))


if __name__ == "__main__":
    main()
