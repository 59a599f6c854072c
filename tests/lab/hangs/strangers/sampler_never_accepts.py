"""Rows are drawn until one is usable; a part of the data has none."""

# mypy: ignore-errors
# No thread of one job; the kind of detectron2 and mmdetection issues on data sets that draw another index.
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import Dataset

MARKED = "--healthy" in sys.argv


class Boxes(Dataset):
    def __init__(self, rank: int) -> None:
        self.counts = [1] * 40 + [0 if rank == 1 and not MARKED else 1] * 400

    def __len__(self) -> int:
        return len(self.counts)

    def _draw(self, part: int) -> int:
        return part * 8 + random.randrange(8)

    def __getitem__(self, part: int) -> torch.Tensor:
        index = self._draw(part)
        while self.counts[index] == 0:
            index = self._draw(part)
        return torch.tensor([float(index)])


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    boxes, weight = Boxes(rank), torch.zeros(1)
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        gradient = boxes[step % 50]
        dist.all_reduce(gradient)
        weight -= 1e-3 * gradient


if __name__ == "__main__":
    main()
