"""Workers of a loader take the level of a curriculum from a queue, into which one process has put too few."""

# mypy: ignore-errors
# No thread; the kind of data set that is steered through a queue.
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

ENOUGH = "--healthy" in sys.argv


class Curriculum(Dataset):
    def __init__(self, levels):
        self.levels = levels

    def __len__(self):
        return 4000

    def __getitem__(self, index):
        if index % 8 == 0:
            self.level = self.levels.get()
        return torch.full((3,), float(self.level))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    levels = mp.Queue()
    for level in range(600 if ENOUGH or rank == 0 else 4):
        levels.put(level % 5)
    loader = DataLoader(Curriculum(levels), batch_size=4, num_workers=1, prefetch_factor=2)
    for step, rows in enumerate(loader):
        time.sleep(0.2)
        total = rows.sum()
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
