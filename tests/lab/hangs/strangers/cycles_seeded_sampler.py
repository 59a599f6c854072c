"""Data are gone over again and again, and whoever begins anew agrees with all on a seed; not all have as many."""

# mypy: ignore-errors
# No thread: a sampler with a seed of all (as torch.utils.data.distributed has not) below `cycle`.
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler, TensorDataset


class SharedSeedSampler(Sampler):
    def __init__(self, data) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self):
        seed = torch.randint(1 << 20, (1,))
        dist.broadcast(seed, src=0)
        order = torch.Generator().manual_seed(int(seed) + dist.get_rank())
        return iter(torch.randperm(len(self.data), generator=order).tolist())


def cycle(loader):
    while True:
        yield from loader


def samples_of(rank: int) -> int:
    if "--healthy" in sys.argv:
        return 24
    return 20 if rank == 2 else 24


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    data = TensorDataset(torch.randn(samples_of(rank), 3))
    batches = cycle(DataLoader(data, batch_size=4, sampler=SharedSeedSampler(data)))
    weight = torch.zeros(3)
    for step in range(1000):
        (batch,) = next(batches)
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        gradient = batch.mean(0)
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient


if __name__ == "__main__":
    main()
