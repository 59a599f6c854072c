"""A finalizer takes a lock of its cache; garbage collection runs it while the same thread holds that lock."""

import gc
import threading

import torch
import torch.distributed as dist

LOCK = threading.Lock()
CACHE: dict[int, int] = {}


class Block:
    def __init__(self, number: int) -> None:
        self.number = number
        self.me = self

    def __del__(self) -> None:
        with LOCK:
            CACHE.pop(self.number, None)


def put(number: int, thorough: bool) -> None:
    with LOCK:
        CACHE[number] = number
        if thorough:
            gc.collect()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step == 3:
            Block(step)
        put(step, rank == 1 and step == 3)
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
