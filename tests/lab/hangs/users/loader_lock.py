"""DataLoader workers take a lock of the module that a thread of the parent had when they were forked."""

import threading
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

INDEX = threading.Lock()


class Pairs(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        with INDEX:
            return torch.ones(2)


def reindex() -> None:
    with INDEX:
        time.sleep(3)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank} step 0", flush=True)
    print(f"rank {rank} step 1", flush=True)
    if rank == 1:
        threading.Thread(target=reindex, daemon=True).start()
        time.sleep(0.3)
    for batch in DataLoader(Pairs(), batch_size=4, num_workers=1, multiprocessing_context="fork"):
        dist.all_reduce(batch)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
