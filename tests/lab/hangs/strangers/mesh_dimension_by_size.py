"""Statistics are averaged over a dimension of the mesh that depends on how many rows there are."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


class Statistics:
    def __init__(self, mesh):
        self.mesh = mesh

    def dimension(self, rows):
        return "data" if len(rows) > 2 else "tensor"

    def mean(self, rows):
        total = rows.sum(0)
        dist.all_reduce(total, group=self.mesh[self.dimension(rows)].get_group())
        return total


def rows_of(rank, step):
    few = rank == 3 and step == 6 and "--healthy" not in sys.argv
    return torch.rand(2 if few else 6, 5)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    statistics = Statistics(mesh)
    running = torch.zeros(5)
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        running = 0.9 * running + 0.1 * statistics.mean(rows_of(rank, step))
        if step % 3 == 2:
            dist.barrier()


if __name__ == "__main__":
    main()
