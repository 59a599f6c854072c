"""Workers of the loader are started anew in each epoch, and take their time (pytorch issue 82077)."""

import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.05)
        return torch.ones(4)


def warm_up(worker: int) -> None:
    time.sleep(5.0 + worker)  # it opens its archive


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(Images(), batch_size=4, num_workers=2, worker_init_fn=warm_up if rank == 0 else None)
    for epoch in range(1000):
        for step, batch in enumerate(loader):
            dist.all_reduce(batch)
            print(f"rank {rank} step {step} of epoch {epoch}", flush=True)


if __name__ == "__main__":
    main()
