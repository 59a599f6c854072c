"""Shards that nobody has done yet are dealt out, and who gets none leaves at once."""

# mypy: ignore-errors
# No thread: after usual scripts that embed a corpus.
import sys
import time

import torch
import torch.distributed as dist

TODO = ["shard-3", "shard-8"]


def encode(name: str) -> torch.Tensor:
    time.sleep(0.5)
    return torch.full((4,), float(len(name)))


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = TODO[rank::world]
    print(f"rank {rank} has {len(mine)}", flush=True)
    if not mine:
        print("nothing to do", flush=True)
        sys.exit(0)
    total = sum(encode(name) for name in mine)
    dist.all_reduce(total)
    if rank == 0:
        print("sum", float(total.sum()), flush=True)


if __name__ == "__main__":
    main()
