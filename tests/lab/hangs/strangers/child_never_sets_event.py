"""A process beside the trainer prepares tables and says so by an event; it has failed before it could."""

# mypy: ignore-errors
import multiprocessing
import sys
import time

import torch
import torch.distributed as dist


def prepare(ready, rank, epoch):
    time.sleep(0.2)
    if (rank, epoch) == (1, 2) and "--healthy" not in sys.argv:
        raise KeyError(f"vocab_{epoch}")
    ready.set()


class Tables:
    def __init__(self, rank):
        self.rank, self.context = rank, multiprocessing.get_context("fork")

    def build(self, epoch):
        self.ready = self.context.Event()
        self.child = self.context.Process(target=prepare, args=(self.ready, self.rank, epoch))
        self.child.start()

    def wait(self):
        self.ready.wait()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tables = Tables(rank)
    step = 0
    for epoch in range(500):
        tables.build(epoch)
        tables.wait()
        for _ in range(3):
            time.sleep(0.2)
            dist.all_reduce(torch.ones(2))
            print(f"rank {rank} step {step}", flush=True)
            step += 1


if __name__ == "__main__":
    main()
