"""A data set that takes two seconds for a batch on one rank."""

import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Images(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(4.0 if dist.get_rank() == 1 else 0.05)
        return torch.ones(4)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step, batch in enumerate(DataLoader(Images(), batch_size=1)):
        dist.all_reduce(batch)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
