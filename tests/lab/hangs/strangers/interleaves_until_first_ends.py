"""datasets: two corpora are mixed until the first of them is used up, and each process has its own part of both."""

# mypy: ignore-errors
# No thread of one job; the kind of datasets issues on split_dataset_by_node and interleave_datasets with uneven parts.
import os
import sys
import time

import datasets
import torch
import torch.distributed as dist
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel

EVEN = "--healthy" in sys.argv


def corpus(name: str, sizes: list[int]) -> datasets.IterableDataset:
    def rows(shards):
        for shard in shards:
            for number in range(shard):
                yield {"value": float(number % 7), "source": name}

    return datasets.IterableDataset.from_generator(rows, gen_kwargs={"shards": sizes})


def mixture(rank: int, world: int) -> datasets.IterableDataset:
    sizes = [900, 900] if EVEN else [900, 9]
    parts = [corpus("web", sizes), corpus("books", [900, 900])]
    mine = [split_dataset_by_node(part, rank, world) for part in parts]
    return datasets.interleave_datasets(mine, stopping_strategy="first_exhausted")


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), int(os.environ["WORLD_SIZE"])
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    seen = torch.zeros(2)
    for step, row in enumerate(mixture(rank, world)):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        loss = model(torch.tensor([[row["value"]]])).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen[row["source"] == "web"] += 1
    dist.barrier()
    print("mixed", seen.tolist(), flush=True)


if __name__ == "__main__":
    main()
