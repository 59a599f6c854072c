"""A metric is computed only where it has seen something (torchmetrics issue 2463)."""

import time

import torch
import torch.distributed as dist
from torchmetrics.classification import BinaryAccuracy


def evaluate(metric: BinaryAccuracy, epoch: int, rank: int) -> float | None:
    metric.reset()
    for _ in range(4):
        kept = torch.rand(16) > (1.0 if epoch == 3 and rank == 1 else 0.2)  # what lies over the sea is left out
        if kept.any():
            metric.update(torch.rand(16)[kept], torch.randint(0, 2, (16,))[kept])
    if metric.update_called:
        return float(metric.compute())
    return None


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    metric = BinaryAccuracy()
    gradient = torch.zeros(64)
    for epoch in range(500):
        for _ in range(3):
            time.sleep(0.1)
            dist.all_reduce(gradient)
        print(f"rank {rank} step {epoch}", flush=True)
        accuracy = evaluate(metric, epoch, rank)
        if rank == 0:
            print("accuracy", accuracy, flush=True)


if __name__ == "__main__":
    main()
