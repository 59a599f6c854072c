"""Gradients are summed into shards; after a vocabulary has grown on one rank its shards are wider."""

import os
import time

import torch
import torch.distributed as dist


class Sharded:
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def reduce(self, width: int) -> torch.Tensor:
        world = dist.get_world_size()
        whole = torch.ones(self.rows * world * width, device="cuda")
        shard = torch.empty(self.rows * width, device="cuda")
        dist.reduce_scatter_tensor(shard, whole)
        return shard


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    sharded = Sharded(rows=1 << 12)
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step == 4 and rank == 1:
            sharded.rows += 8
        shard = sharded.reduce(64)
        print(f"rank {rank} norm {shard.norm().item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
