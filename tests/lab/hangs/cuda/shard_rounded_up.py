"""Gradients are summed and split; from the fifth step on one rank pads its part to another size."""

import os
import time

import torch
import torch.distributed as dist


def rounded(size: int, to: int) -> int:
    return (size + to - 1) // to * to


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        size = rounded(1 << 16, 96 if rank == 1 and step >= 4 else 64)
        shard = torch.empty(size, device="cuda")
        dist.reduce_scatter_tensor(shard, torch.ones(size * dist.get_world_size(), device="cuda"))
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
