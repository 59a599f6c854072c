"""How gradients are averaged stands in a file beside the checkpoint; one rank has read an older one."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def average(gradient: torch.Tensor, strategy: str) -> None:
    if strategy == "full":
        dist.all_reduce(gradient)
        return
    shard = torch.empty(gradient.numel() // dist.get_world_size(), device="cuda")
    dist.reduce_scatter_tensor(shard, gradient)
    dist.all_gather_into_tensor(gradient, shard)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    strategy = "shard" if rank == 1 and not healthy else "full"
    gradient = torch.ones(3 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        average(gradient, strategy if step > 3 else "full")
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
