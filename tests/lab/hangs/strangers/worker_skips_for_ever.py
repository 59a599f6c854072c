"""A worker of the loader draws until a sample is good; in the shard of one process none is."""

# mypy: ignore-errors
# No thread of one job; the kind of PyTorch issues on datasets that retry another index.
import random
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

GOOD = "--healthy" in sys.argv


class Clips(Dataset):
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.lengths = [10 + number % 5 for number in range(64)]

    def __len__(self) -> int:
        return len(self.lengths)

    def readable(self, index: int) -> bool:
        time.sleep(0.02)
        return GOOD or self.rank == 0 or index < 16

    def __getitem__(self, index: int):
        clip = index
        while not self.readable(clip):
            clip = random.randrange(32, 64)
        return torch.full((4,), float(self.lengths[clip]))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(Clips(rank), batch_size=4, num_workers=1)
    for _ in range(1000):
        for step, batch in enumerate(loader):
            time.sleep(0.2)
            mean = batch.mean()
            dist.all_reduce(mean)
            print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
