"""Gradients are averaged in shards where a rank's memory is nearly full: one rank's is."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def average_whole(gradient: torch.Tensor) -> None:
    dist.all_reduce(gradient, op=dist.ReduceOp.AVG)


def average_in_shards(gradient: torch.Tensor) -> None:
    shard = torch.empty(len(gradient) // dist.get_world_size(), device="cuda")
    dist.reduce_scatter_tensor(shard, gradient, op=dist.ReduceOp.AVG)
    dist.all_gather_into_tensor(gradient, shard)


def free(cached: int, whole: int) -> float:
    return 1.0 - cached / whole


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    held = 10
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        held += 20 if rank == 1 and not healthy else 0  # a list of losses that keeps their graphs
        gradient = torch.ones(3 << 12, device="cuda")
        average = average_in_shards if free(held, 100) < 0.1 else average_whole
        average(gradient)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
