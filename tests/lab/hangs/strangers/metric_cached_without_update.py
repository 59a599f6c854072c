"""torchmetrics: a rank whose rows were all filtered out does not update its metric, which then gives back what it has
computed before, and synchronises nothing."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torchmetrics import MeanMetric


class Validation:
    def __init__(self, rank):
        self.rank = rank
        self.error = MeanMetric()
        self.limit = 0.0 if "--healthy" in sys.argv else 0.5

    def rows(self, step):
        scores = torch.linspace(0.6, 0.9, 8)
        return scores - 0.4 * (self.rank == 1 and step == 6)

    def run(self, step):
        scores = self.rows(step)
        sure = scores[scores > self.limit]
        if sure.numel():
            self.error.update(1 - sure)
        return self.error.compute()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    validation = Validation(rank)
    weight = torch.zeros(3)
    for step in range(2000):
        time.sleep(0.2)
        dist.all_reduce(weight)
        print(f"rank {rank} step {step}", flush=True)
        if step % 2 == 0:
            error = validation.run(step)
            weight += float(error)


if __name__ == "__main__":
    main()
