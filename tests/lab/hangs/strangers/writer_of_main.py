"""Figures are drawn where there is a writer, of what is gathered for them."""

# mypy: ignore-errors
# No thread: after usual boards of the first process.
import time

import torch
import torch.distributed as dist


class Writer:
    def add_figure(self, name: str, rows: list) -> None:
        print(name, len(rows), flush=True)


class Confusion:
    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []

    def update(self, pair: tuple[int, int]) -> None:
        self.pairs.append(pair)

    def matrix(self) -> list:
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, self.pairs)
        return [pair for part in parts for pair in part]


class Trainer:
    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.writer = Writer() if self.rank == 0 else None
        self.confusion, self.weight = Confusion(), torch.ones(8)

    def epoch_end(self, epoch: int) -> None:
        if self.writer is not None and epoch > 1:
            self.writer.add_figure("confusion", self.confusion.matrix())

    def fit(self) -> None:
        for epoch in range(1000):
            for _ in range(3):
                time.sleep(0.1)
                dist.all_reduce(self.weight)
                self.weight /= dist.get_world_size()
                self.confusion.update((1, self.rank))
            print(f"rank {self.rank} epoch {epoch}", flush=True)
            self.epoch_end(epoch)


def main() -> None:
    dist.init_process_group("gloo")
    Trainer().fit()


if __name__ == "__main__":
    main()
