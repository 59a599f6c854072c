"""A cache is closed under its lock, and the thread that it then joins wants the lock once more."""

# mypy: ignore-errors
import sys
import threading
import time

import torch
import torch.distributed as dist


class Cache:
    def __init__(self, rank, epoch):
        self.lock, self.closing, self.rows = threading.Lock(), threading.Event(), {}
        self.slow = rank == 1 and epoch == 2 and "--healthy" not in sys.argv
        self.thread = threading.Thread(target=self.fill, daemon=True)
        self.thread.start()

    def fill(self):
        number = 0
        while not self.closing.is_set():
            row = torch.rand(4)
            if self.slow:
                self.closing.wait()
                time.sleep(0.3)
            else:
                time.sleep(0.02)
                if self.closing.is_set():
                    return
            with self.lock:
                self.rows[number % 8] = row
            number += 1

    def close(self):
        with self.lock:
            self.closing.set()
            if self.slow:
                self.thread.join()
            self.rows.clear()
        self.thread.join()


def main():
    dist.init_process_group("gloo")
    rank, step = dist.get_rank(), 0
    for epoch in range(500):
        cache = Cache(rank, epoch)
        for _ in range(3):
            time.sleep(0.2)
            dist.all_reduce(torch.ones(2))
            print(f"rank {rank} step {step}", flush=True)
            step += 1
        cache.close()


if __name__ == "__main__":
    main()
