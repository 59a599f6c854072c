"""Workers of a loader stay, and take three seconds to begin an epoch (pytorch issue 82077)."""

import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Shards(IterableDataset):
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.epoch = 0

    def __iter__(self):
        self.epoch += 1
        if self.epoch > 1:
            time.sleep(3.0 + self.rank)  # opens its shards
        for _ in range(6):
            time.sleep(0.2)
            yield torch.ones(8)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(Shards(rank), batch_size=2, num_workers=2, persistent_workers=True)
    step = 0
    for _ in range(1000):
        for batch in loader:
            dist.all_reduce(batch)
            print(f"rank {rank} step {step}", flush=True)
            step += 1


if __name__ == "__main__":
    main()
