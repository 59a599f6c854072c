"""Only meters that have counted something are averaged; one process had no sample of a kind."""

# mypy: ignore-errors
import sys
import time
from collections import defaultdict

import torch
import torch.distributed as dist


class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value):
        self.sum, self.count = self.sum + value, self.count + 1

    def average(self):
        both = torch.tensor([self.sum, float(self.count)])
        dist.all_reduce(both)
        return (both[0] / both[1]).item()


class Evaluator:
    kinds = ("short", "long", "code")

    def __init__(self, rank):
        self.rank = rank

    def samples(self, number):
        for row in range(6):
            kind = self.kinds[row % 3]
            if kind == "code" and self.rank == 1 and number >= 2 and "--healthy" not in sys.argv:
                kind = "long"
            yield kind, float(row)

    def run(self, number):
        meters = defaultdict(Meter, {kind: Meter() for kind in self.kinds})
        for kind, loss in self.samples(number):
            time.sleep(0.1)
            meters[kind].update(loss)
        return {kind: meter.average() for kind, meter in meters.items() if meter.count}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    evaluator = Evaluator(rank)
    weight = torch.zeros(4)
    for step in range(1000):
        evaluator.run(step)
        dist.broadcast(weight, src=0)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
