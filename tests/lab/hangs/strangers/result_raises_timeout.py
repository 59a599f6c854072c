"""Whoever waits for a prefetched shard asks once a second; what the task raises is a TimeoutError too."""

# mypy: ignore-errors
import concurrent.futures
import sys
import time

import torch
import torch.distributed as dist


def download(rank, number):
    time.sleep(0.1)
    if rank == 1 and number == 6 and "--healthy" not in sys.argv:
        raise TimeoutError(f"shard {number}: no answer within 30 s")
    return torch.full((3,), float(number))


class Prefetch:
    def __init__(self, rank):
        self.rank = rank
        self.executor = concurrent.futures.ThreadPoolExecutor(2)
        self.waiting = {}

    def ask(self, number):
        self.waiting[number] = self.executor.submit(download, self.rank, number)

    def take(self, number):
        future = self.waiting.pop(number)
        while True:
            try:
                return future.result(timeout=1)
            except concurrent.futures.TimeoutError:
                time.sleep(0.5)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    prefetch = Prefetch(rank)
    prefetch.ask(0)
    total = torch.zeros(3)
    for step in range(2000):
        prefetch.ask(step + 1)
        total += prefetch.take(step)
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(total)
        total /= dist.get_world_size()


if __name__ == "__main__":
    main()
