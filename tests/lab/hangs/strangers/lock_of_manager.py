"""A lock of multiprocessing's manager keeps the index of a cache; a helper takes it and is killed before it gives it
back."""

# mypy: ignore-errors
# No thread of one job; after usual questions on Manager().Lock() and processes that the OOM killer ended.
import multiprocessing
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

LIVES = "--healthy" in sys.argv


def refresh(lock, index) -> None:
    with lock:
        index["version"] = index.get("version", 0) + 1
        if not LIVES:
            os.kill(os.getpid(), signal.SIGKILL)


class Cache:
    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self.manager = context.Manager()
        self.lock, self.index = self.manager.Lock(), self.manager.dict()
        self.helper = context.Process(target=refresh, args=(self.lock, self.index))

    def row(self, number: int) -> float:
        with self.lock:
            self.index[number] = self.index.get(number, 0) + 1
        return float(number % 5)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    cache = Cache()
    total = torch.zeros(1)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if step == 5 and rank == 1:
            cache.helper.start()
            cache.helper.join()
        dist.all_reduce(total.fill_(cache.row(step)))


if __name__ == "__main__":
    main()
