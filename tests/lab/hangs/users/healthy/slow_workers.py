"""Workers read over a slow network: each sample is waited for."""

import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Remote(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(3.0)
        return torch.ones(4)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step, batch in enumerate(DataLoader(Remote(), batch_size=2, num_workers=2)):
        dist.all_reduce(batch)
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
