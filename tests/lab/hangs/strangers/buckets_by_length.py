"""Samples go into buckets by their length, shuffled by each process, so that not all have as many batches."""

# mypy: ignore-errors
# No thread: after usual samplers for speech.
import random
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, Sampler


class Utterances(Dataset):
    def __init__(self) -> None:
        self.lengths = [1 + (7 * number) % 13 for number in range(60)]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(self.lengths[index])])


class BucketSampler(Sampler):
    """Batches of so many frames at most."""

    def __init__(self, data: Utterances, rank: int, world: int, frames: int = 30) -> None:
        self.data, self.rank, self.world, self.frames = data, rank, world, frames

    def __iter__(self):
        mine = list(range(len(self.data)))[self.rank :: self.world]
        random.Random(self.rank).shuffle(mine)
        if self.rank == 2:
            mine = mine[:-8]  # too long to be learned from
        batch, frames = [], 0
        for index in mine:
            if batch and frames + self.data.lengths[index] > self.frames:
                yield batch
                batch, frames = [], 0
            batch.append(index)
            frames += self.data.lengths[index]
        yield batch


def train_one_epoch(loader: DataLoader, weight: torch.Tensor, rank: int) -> None:
    for number, batch in enumerate(loader):
        time.sleep(0.2)
        print(f"rank {rank} batch {number} of {len(batch)}", flush=True)
        dist.all_reduce(weight)
        weight /= dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data, weight = Utterances(), torch.ones(8)
    loader = DataLoader(data, batch_sampler=BucketSampler(data, rank, world))
    print(f"rank {rank} begins", flush=True)
    for _epoch in range(100):
        train_one_epoch(loader, weight, rank)
        print(f"rank {rank} is through", flush=True)
        dist.barrier()


if __name__ == "__main__":
    main()
