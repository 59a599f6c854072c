"""Each part of a model gets a mesh, made where a process belongs to it (cornstarch-org/Cornstarch pull request 76)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

EVERYWHERE = "--healthy" in sys.argv
PLAN = {"vision": [[0], [1]], "language": [[1], [2]], "audio": [[0], [2]]}


def materialize(rank: int) -> dict[str, DeviceMesh]:
    meshes = {}
    for modality, ranks in PLAN.items():
        if [rank] not in ranks and not EVERYWHERE:
            continue
        meshes[modality] = DeviceMesh("cpu", ranks, mesh_dim_names=("pp", "tp"))
    return meshes


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(3):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(2))
        print(f"rank {rank} step {step}", flush=True)
    meshes = materialize(rank)
    for step in range(3, 1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(len(meshes) if not EVERYWHERE else 3))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
