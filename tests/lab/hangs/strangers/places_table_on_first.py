"""A table that is cut up over the processes is laid out whole where it is written, on the first of them."""

# mypy: ignore-errors
# No thread of one job; the kind of pytorch issues on DTensor.redistribute called by one rank.
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

EVERYBODY = "--healthy" in sys.argv


def whole(table):
    return table.redistribute(placements=[Replicate()]).to_local()


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,))
    table = distribute_tensor(torch.zeros(6, 2), mesh, [Shard(0)])
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        seen = torch.randn(6, 2)
        dist.all_reduce(seen)
        if step % 5 == 4:
            copy = whole(table) if EVERYBODY else None
            if mesh.get_rank() == 0:
                torch.save(whole(table) if copy is None else copy, "/dev/null")


if __name__ == "__main__":
    main()
