"""The first replica writes the shards of the model and waits for the others, who write none."""

# mypy: ignore-errors
# No thread: after the usual way to save tensor-parallel shards.
import time
from pathlib import Path

import torch
import torch.distributed as dist

TP = 2


class Parallel:
    def __init__(self) -> None:
        world, rank = dist.get_world_size(), dist.get_rank()
        for first in range(0, world, TP):
            members = list(range(first, first + TP))
            group = dist.new_group(members)
            if rank in members:
                self.tp = group
        for number in range(TP):
            members = list(range(number, world, TP))
            group = dist.new_group(members)
            if rank in members:
                self.dp = group


def save_shard(weight: torch.Tensor, parallel: Parallel, step: int) -> None:
    tp_rank = dist.get_rank(parallel.tp)
    if dist.get_rank(parallel.dp) == 0:
        torch.save(weight, Path.cwd() / f"step{step}.tp{tp_rank}.pt")
        dist.barrier()
        if tp_rank == 0:
            (Path.cwd() / "latest").write_text(str(step))


def main() -> None:
    dist.init_process_group("gloo")
    rank, parallel, weight = dist.get_rank(), Parallel(), torch.ones(64)
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(weight, group=parallel.tp)
        dist.all_reduce(weight, group=parallel.dp)
        weight /= dist.get_world_size()
        print(f"rank {rank} step {step}", flush=True)
        if step and step % 5 == 0:
            save_shard(weight, parallel, step)


if __name__ == "__main__":
    main()
