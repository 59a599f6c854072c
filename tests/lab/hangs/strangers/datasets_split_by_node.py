"""Hugging Face datasets: shards of unlike size are split by node, and each rank trains to the end of its own
(huggingface/datasets 6437)."""

# mypy: ignore-errors
import os
import sys
import time

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch.distributed as dist
from datasets import IterableDataset
from datasets.distributed import split_dataset_by_node
from torch.nn.parallel import DistributedDataParallel

ROWS = {"part-0": 28, "part-1": 28, "part-2": 28, "part-3": 28 if "--healthy" in sys.argv else 20}


def rows_of(names):
    for name in names:
        for number in range(ROWS[name]):
            yield {"x": [float(number)] * 4}


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data = IterableDataset.from_generator(rows_of, gen_kwargs={"names": sorted(ROWS)})
    data = split_dataset_by_node(data, rank=rank, world_size=world).with_format("torch")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    step = 0
    for epoch in range(100):
        for batch in data.batch(batch_size=4):
            time.sleep(0.2)
            loss = model(torch.as_tensor(batch["x"])).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"rank {rank} step {step}", flush=True)
            step += 1
        dist.barrier()
        if rank == 0:
            print(f"epoch {epoch} is over")


if __name__ == "__main__":
    main()
