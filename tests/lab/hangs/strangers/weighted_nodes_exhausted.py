"""torchdata: two sources are mixed by weight until the first is exhausted, on each rank by a seed of its own."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchdata.nodes import Batcher, IterableWrapper, Loader, Mapper, MultiNodeWeightedSampler, StopCriteria

SEEDS = (3, 3) if "--healthy" in sys.argv else (3, 11)


def to_rows(numbers):
    return torch.tensor(numbers, dtype=torch.float32).unsqueeze(1).expand(-1, 4) / 100


def pipeline(seed):
    sources = {"web": IterableWrapper(range(40)), "code": IterableWrapper(range(100, 120))}
    mixed = MultiNodeWeightedSampler(
        sources,
        weights={"web": 0.6, "code": 0.4},
        stop_criteria=StopCriteria.FIRST_DATASET_EXHAUSTED,
        rank=0,
        world_size=1,
        seed=seed,
    )
    return Loader(Mapper(Batcher(mixed, batch_size=4), to_rows))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    loader = pipeline(SEEDS[rank])
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    step = 0
    for _ in range(100):
        for rows in loader:
            time.sleep(0.2)
            optimizer.zero_grad()
            model(rows).square().mean().backward()
            optimizer.step()
            print(f"rank {rank} step {step}", flush=True)
            step += 1
        seen = [None] * dist.get_world_size()
        dist.all_gather_object(seen, step)


if __name__ == "__main__":
    main()
