"""A thread makes the next batch whenever it is told; being told is taken back after the work, and not before it."""

# mypy: ignore-errors
# No thread of one job; after usual prefetchers with two events.
import sys
import threading
import time

import torch
import torch.distributed as dist

CLEARS_FIRST = "--healthy" in sys.argv


class Prefetcher:
    def __init__(self, slow_at: int) -> None:
        self.wanted, self.ready = threading.Event(), threading.Event()
        self.batch, self.made, self.slow_at = None, 0, slow_at
        threading.Thread(target=self._fill, daemon=True).start()
        self.wanted.set()

    def _fill(self) -> None:
        while True:
            self.wanted.wait()
            if CLEARS_FIRST:
                self.wanted.clear()
            self.batch = torch.randn(4)
            self.made += 1
            self.ready.set()
            if self.made == self.slow_at:
                time.sleep(0.5)  # the statistics of the cache are written
            if not CLEARS_FIRST:
                self.wanted.clear()

    def next(self) -> torch.Tensor:
        self.ready.wait()
        self.ready.clear()
        batch = self.batch
        self.wanted.set()
        return batch


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    batches = Prefetcher(slow_at=5 if rank == 1 else 0)
    weight = torch.zeros(4)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        gradient = batches.next()
        dist.all_reduce(gradient)
        weight -= 0.01 * gradient


if __name__ == "__main__":
    main()
