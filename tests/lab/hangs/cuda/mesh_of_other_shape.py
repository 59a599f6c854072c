"""The mesh is cut by what a rank reads of its own node: one counts four GPUs there, the others two."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    for step in range(3):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
    per_node = 4 if rank == 3 and not healthy else 2
    mesh = init_device_mesh("cuda", (dist.get_world_size() // per_node, per_node), mesh_dim_names=("data", "tensor"))
    for step in range(3, 1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient, group=mesh.get_group("tensor"))
        dist.all_reduce(gradient, group=mesh.get_group("data"))
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
