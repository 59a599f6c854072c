"""A worker of one rank's DataLoader tries a download again after ever longer pauses."""

import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset[torch.Tensor]):
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rank == 1 and index == 9:
            self.download_again()
        return torch.ones(4) * index

    def download_again(self) -> None:
        for attempt in range(6, 20):
            time.sleep(10 * 2**attempt)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(Remote(rank), batch_size=2, num_workers=1)
    for step, batch in enumerate(loader):
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(batch)


if __name__ == "__main__":
    main()
