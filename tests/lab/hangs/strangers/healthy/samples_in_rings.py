"""The first of each ring makes the samples, slowly, and hands them to its ring."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    size = 2 if world % 2 == 0 else 1
    groups = [dist.new_group(list(range(first, first + size))) for first in range(0, world, size)]
    group, source = groups[rank // size], rank // size * size
    for step in range(1000):
        samples = [None] * 4
        if rank % size == 0:
            time.sleep(1.0 + rank * 0.8)
            samples = [step + number for number in range(4)]
        dist.broadcast_object_list(samples, src=source, group=group)
        dist.all_reduce(torch.tensor(float(sum(samples))))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
