"""Workers of the loader are started for each epoch, and open their files for five seconds."""

import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index))


def open_files(worker: int) -> None:
    time.sleep(5)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2):
        dist.all_reduce(torch.ones(1))
        print(f"rank {rank} step {step}", flush=True)
    for epoch in range(100):
        for batch in DataLoader(Rows(), batch_size=4, num_workers=2, worker_init_fn=open_files):
            total = batch.sum()
            dist.all_reduce(total)
        print(f"rank {rank} has done epoch {epoch}", flush=True)


if __name__ == "__main__":
    main()
