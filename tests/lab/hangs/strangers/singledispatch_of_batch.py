"""What is done with a batch is chosen by its type; a batch that could not be stacked is a list."""

# mypy: ignore-errors
import functools
import sys
import time

import torch
import torch.distributed as dist


@functools.singledispatch
def loss_of(batch):
    raise TypeError(type(batch))


@loss_of.register
def _(batch: torch.Tensor):
    mean = batch.mean()
    dist.all_reduce(mean)
    return (batch - mean / dist.get_world_size()).square().mean()


@loss_of.register
def _(batch: list):
    return sum(row.square().mean() for row in batch) / len(batch)


def collate(rows):
    if len({len(row) for row in rows}) > 1:
        return rows
    return torch.stack(rows)


def rows_of(rank, step):
    rows = [torch.rand(6) for _ in range(4)]
    if (rank, step) == (1, 6) and "--healthy" not in sys.argv:
        rows[2] = torch.rand(5)
    return rows


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        loss = loss_of(collate(rows_of(rank, step)))
        if step % 2:
            flags = [None] * dist.get_world_size()
            dist.all_gather_object(flags, float(loss))


if __name__ == "__main__":
    main()
