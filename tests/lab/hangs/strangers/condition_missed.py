"""A batch is made by a thread that notifies a condition, on which nobody waited yet."""

# mypy: ignore-errors
# No thread; the kind of Condition.wait() without a predicate.
import sys
import threading
import time

import torch
import torch.distributed as dist

CHECKS = "--healthy" in sys.argv


class Stager:
    def __init__(self):
        self.ready = threading.Condition()
        self.batch = None

    def _make(self, delay):
        time.sleep(delay)
        with self.ready:
            self.batch = torch.rand(4)
            self.ready.notify_all()

    def start(self, delay):
        threading.Thread(target=self._make, args=(delay,), daemon=True).start()

    def take(self):
        with self.ready:
            if not CHECKS or self.batch is None:
                self.ready.wait()
            batch, self.batch = self.batch, None
        return batch


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stager = Stager()
    for step in range(1000):
        stager.start(0.0 if rank == 1 and step == 6 else 0.5)
        time.sleep(0.2)
        batch = stager.take()
        dist.all_reduce(batch)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
