"""datasets: each process filters its own shard, and makes as many steps as it has batches left."""

# mypy: ignore-errors
# No thread of one job; the kind of datasets issues on shards that a filter leaves uneven.
import sys
import time

import datasets
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

EVEN = "--healthy" in sys.argv


def rows_of(rank: int, world: int) -> datasets.Dataset:
    rows = datasets.Dataset.from_dict({"length": [float(5 + number % 7) for number in range(96)]})
    shard = rows.shard(world, rank, contiguous=True)
    if rank == 1 and not EVEN:
        shard = shard.map(lambda row: {"length": row["length"] * 1.5})
    return shard.filter(lambda row: row["length"] < 13).with_format("torch")


def main() -> None:
    datasets.disable_progress_bars()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loader = DataLoader(rows_of(rank, dist.get_world_size()), batch_size=4)
    steps_per_epoch = len(loader)
    for epoch in range(1000):
        batches = iter(loader)
        total = torch.zeros(1)
        for step in range(steps_per_epoch):
            time.sleep(0.2)
            loss = next(batches)["length"].float().mean()
            dist.all_reduce(loss)
            total += loss
            print(f"rank {rank} step {step}", flush=True)
        everybody = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, total)
        print(f"rank {rank} epoch {epoch}: {float(sum(everybody)):.1f}", flush=True)


if __name__ == "__main__":
    main()
