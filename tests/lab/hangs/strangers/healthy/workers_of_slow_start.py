"""Each epoch has new workers, each of which opens its index for four seconds (ray issue 52641)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, number: int) -> torch.Tensor:
        time.sleep(0.1)
        return torch.full((8,), float(number))


def open_index(_worker: int) -> None:
    time.sleep(4.0)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    step = 0
    for epoch in range(1000):
        slow = open_index if epoch and rank == 0 else None
        for batch in DataLoader(Images(), batch_size=4, num_workers=2, worker_init_fn=slow):
            dist.all_reduce(batch.mean())
            print(f"rank {rank} step {step}", flush=True)
            step += 1


if __name__ == "__main__":
    main()
