"""Samples come by a queue from a thread; where nothing has come within a moment the step is left out."""

# mypy: ignore-errors
import queue
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Augmenter(threading.Thread):
    def __init__(self, rank, waiting):
        super().__init__(daemon=True)
        self.rank, self.waiting = rank, waiting
        self.items = queue.Queue(maxsize=4)

    def run(self):
        for number in range(4000):
            if self.rank == 1 and number == 9 and "--healthy" not in sys.argv:
                time.sleep(3.0)
            time.sleep(0.05)
            self.items.put(torch.rand(4, 6))

    def next(self):
        return self.items.get(timeout=self.waiting)


def train(rank, augmenter, model, optimizer):
    step = skipped = 0
    while step < 2000:
        time.sleep(0.25)
        try:
            rows = augmenter.next()
        except queue.Empty:
            skipped += 1
            step += 1
            continue
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        step += 1
        if step % 10 == 0:
            dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(6, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    augmenter = Augmenter(rank, 60.0 if "--healthy" in sys.argv else 0.7)
    augmenter.start()
    train(rank, augmenter, model, optimizer)


if __name__ == "__main__":
    main()
