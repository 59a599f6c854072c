"""All meters that were ever made are reduced; the first process makes one more when it draws a figure."""

# mypy: ignore-errors
import sys
import time
from typing import ClassVar

import torch
import torch.distributed as dist


class Meter:
    made: ClassVar = []

    def __init__(self, name):
        self.name, self.total = name, torch.zeros(2)
        Meter.made.append(self)

    def add(self, value):
        self.total += torch.tensor([float(value), 1.0])

    @classmethod
    def reduce_all(cls):
        for meter in cls.made:
            dist.all_reduce(meter.total)


def figure(step, rank):
    if rank == 0:
        height = Meter("figure/height") if "--healthy" not in sys.argv else None
        if height:
            height.add(step)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loss, tokens = Meter("loss"), Meter("tokens")
    for step in range(2000):
        time.sleep(0.2)
        loss.add(1.0 / (step + 1))
        tokens.add(64)
        Meter.reduce_all()
        print(f"rank {rank} step {step}", flush=True)
        if step == 5:
            figure(step, rank)
        if step % 3 == 2:
            dist.barrier()


if __name__ == "__main__":
    main()
