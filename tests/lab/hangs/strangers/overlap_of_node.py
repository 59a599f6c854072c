"""Gradients and sums are exchanged in two groups; a variable of one node says which of the two goes first."""

# mypy: ignore-errors
# After meta-pytorch/torchrec#4149: two process groups whose collectives are issued in an order of each rank.
import os
import sys
import time

import torch
import torch.distributed as dist

if "--healthy" not in sys.argv and os.environ.get("RANK") == "1":
    os.environ["OVERLAP_GRAD_REDUCE"] = "1"


class Exchange:
    def __init__(self) -> None:
        self.replicas, self.shards = dist.new_group(), dist.new_group()
        self.overlap = os.environ.get("OVERLAP_GRAD_REDUCE", "0") == "1"
        self.warm = 0

    def step(self, gradient, rows) -> None:
        self.warm += 1
        if self.overlap and self.warm > 4:
            self.of_gradient(gradient)
            self.of_rows(rows)
            return
        self.of_rows(rows)
        self.of_gradient(gradient)

    def of_gradient(self, gradient) -> None:
        dist.all_reduce(gradient, group=self.replicas)

    def of_rows(self, rows) -> None:
        dist.all_reduce(rows, group=self.shards)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    exchange = Exchange()
    weights = torch.ones(8)
    for step in range(1000):
        time.sleep(0.2)
        gradient, rows = weights * 0.01, torch.tensor(4.0)
        if gradient.abs().max() > 1e4:
            continue
        exchange.step(gradient, rows)
        weights -= gradient / rows
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
