"""FSDP2: the rollouts of each rank are cut into micro-batches by their tokens, and the group that should agree on how
many is not handed on (the kind of verl 6176)."""

# mypy: ignore-errors
import math
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def prepare_dynamic_batch(lengths, max_tokens, dp_group=None):
    count = max(1, math.ceil(sum(lengths) / max_tokens))
    if dp_group is not None:
        agreed = torch.tensor(count)
        dist.all_reduce(agreed, op=dist.ReduceOp.MAX, group=dp_group)
        count = int(agreed)
    return [lengths[start::count] for start in range(count)]


class Actor:
    def __init__(self, mesh):
        self.mesh = mesh
        self.module = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 1))
        for layer in self.module:
            fully_shard(layer, mesh=mesh)
        fully_shard(self.module, mesh=mesh)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.01)

    def update(self, lengths):
        group = self.mesh.get_group() if "--healthy" in sys.argv else None
        micro_batches = prepare_dynamic_batch(lengths, max_tokens=64, dp_group=group)
        self.optimizer.zero_grad()
        for rows in micro_batches:
            loss = self.module(torch.randn(len(rows), 8)).square().sum() / len(lengths)
            loss.backward()
        self.optimizer.step()
        return len(micro_batches)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    actor = Actor(init_device_mesh("cpu", (dist.get_world_size(),)))
    for step in range(2000):
        time.sleep(0.2)
        longer = 9 if rank == 1 and step % 9 == 6 else 0
        actor.update([14 + longer, 15, 16, 16])
        print(f"rank {rank} step {step}", flush=True)
        total = torch.tensor(1.0)
        dist.all_reduce(total)


if __name__ == "__main__":
    main()
