"""A thread warms the cache and says when it has; the main one looks every tenth of a second."""

# mypy: ignore-errors
import sys
import threading
import time

import torch
import torch.distributed as dist


class Cache:
    def __init__(self, rank):
        self.rank, self.warm, self.rows = rank, False, {}

    def _fill(self, part):
        for number in range(4):
            time.sleep(0.02)
            self.rows[number] = 1.0 / (number + 1 if part != 4 else self.shard_size(number))
        self.warm = True

    def shard_size(self, number):
        return 0 if self.rank == 1 and "--healthy" not in sys.argv else 8

    def fill(self, part):
        self.warm = False
        threading.Thread(target=self._fill, args=(part,), name="cache", daemon=True).start()

    def wait(self):
        while not self.warm:
            time.sleep(0.1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    cache = Cache(rank)
    for part in range(500):
        cache.fill(part)
        cache.wait()
        total = torch.tensor(sum(cache.rows.values()))
        for _ in range(3):
            time.sleep(0.2)
            dist.all_reduce(total)
        print(f"rank {rank} step {part}", flush=True)


if __name__ == "__main__":
    main()
