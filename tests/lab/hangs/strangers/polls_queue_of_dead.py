"""Rows come from a process by a queue, asked with a timeout; that the process has gone is not looked at."""

# mypy: ignore-errors
import multiprocessing
import queue
import sys
import time

import torch
import torch.distributed as dist


def produce(rows, rank):
    for number in range(100000):
        if rank == 1 and number == 6 and "--healthy" not in sys.argv:
            raise RuntimeError("row 6: bad checksum")
        rows.put(torch.full((2,), float(number)).tolist())


class Rows:
    def __init__(self, rank):
        context = multiprocessing.get_context("fork")
        self.queue = context.Queue(maxsize=4)
        self.process = context.Process(target=produce, args=(self.queue, rank), daemon=True)
        self.process.start()

    def __iter__(self):
        while True:
            try:
                yield self.queue.get(timeout=1)
            except queue.Empty:
                print("no row yet", flush=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step, row in enumerate(Rows(rank)):
        time.sleep(0.2)
        mean = torch.tensor(row)
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(mean)


if __name__ == "__main__":
    main()
