"""A stream is split between the processes by its shards, which are not of one length (datasets issue 6437)."""

# mypy: ignore-errors
import time
from collections.abc import Iterator
from typing import Any

from accelerate import Accelerator
from datasets import IterableDataset
from datasets.distributed import split_dataset_by_node
from torch import nn
from torch.utils.data import DataLoader

LENGTHS = [40, 12, 40]


def lines(shards: list[int]) -> Iterator[dict[str, Any]]:
    for shard in shards:
        for _ in range(LENGTHS[shard]):
            yield {"features": [float(shard)] * 6}


def main() -> None:
    accelerator = Accelerator(cpu=True)
    stream = IterableDataset.from_generator(lines, gen_kwargs={"shards": [0, 1, 2]})
    mine = split_dataset_by_node(stream, rank=accelerator.process_index, world_size=accelerator.num_processes)
    model = accelerator.prepare(nn.Linear(6, 1))
    loader = DataLoader(mine.with_format("torch"), batch_size=2)
    for epoch in range(20):
        for step, batch in enumerate(loader):
            time.sleep(0.15)
            loss = model(batch["features"]).pow(2).mean()
            accelerator.backward(loss)
            print(f"rank {accelerator.process_index} step {step}", flush=True)
        losses = accelerator.gather(loss.detach())
        accelerator.print(f"epoch {epoch}: {losses.mean().item():.3f}")


if __name__ == "__main__":
    main()
