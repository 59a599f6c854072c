"""Workers of a loader meet in a barrier when an epoch begins; one has ended its epoch early (streaming issue 617)."""

import multiprocessing
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

WORKERS = 2


class StreamingDataset(IterableDataset):
    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.epoch = 0
        self.barrier = multiprocessing.Barrier(WORKERS)

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        self.epoch += 1
        if self.rank == 0 and self.epoch == 2 and info.id == 1:
            yield torch.zeros(4)  # what was left of the epoch before
            return
        self.barrier.wait()
        for _ in range(4):
            time.sleep(0.1)
            yield torch.full((4,), float(info.id))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(StreamingDataset(rank), batch_size=2, num_workers=WORKERS, persistent_workers=True)
    for epoch in range(1000):
        for step, batch in enumerate(loader):
            dist.all_reduce(batch)
            print(f"rank {rank} step {epoch * 4 + step}", flush=True)


if __name__ == "__main__":
    main()
