"""A counter of epochs ends early where a metric gets no better; the metric is each process's own (speechbrain 1939)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


class EpochCounter:
    def __init__(self, limit: int, patience: int) -> None:
        self.current, self.limit, self.patience = 0, limit, patience
        self.best, self.since = float("inf"), 0

    def __iter__(self):
        return self

    def __next__(self) -> int:
        if self.current >= self.limit:
            raise StopIteration
        self.current += 1
        return self.current

    def should_stop(self, metric: float) -> bool:
        if metric < self.best:
            self.best, self.since = metric, 0
        else:
            self.since += 1
        return self.since >= self.patience


def fit(epoch: int, weight: torch.Tensor) -> None:
    for _ in range(3):
        time.sleep(0.1)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()
    print(f"rank {dist.get_rank()} step {epoch}", flush=True)


def valid_loss(rank: int, epoch: int) -> float:
    return 2.0 if rank == 2 and epoch > 2 else 1.0 / epoch


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.ones(16)
    counter = EpochCounter(limit=100, patience=2)
    for epoch in counter:
        fit(epoch, weight)
        if counter.should_stop(valid_loss(rank, epoch)):
            counter.current = counter.limit
    sizes = [None] * dist.get_world_size()
    dist.all_gather_object(sizes, counter.best)
    if rank == 0:
        print("best", sizes)


if __name__ == "__main__":
    main()
