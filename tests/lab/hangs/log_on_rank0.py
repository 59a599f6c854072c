"""Rank 0 averages the loss for its log; nobody else does."""

import argparse
import time

import torch
import torch.distributed as dist


def mean_of_all(value: torch.Tensor) -> float:
    value = value.clone()
    dist.all_reduce(value)
    return value.item() / dist.get_world_size()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    losses = torch.zeros(64)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(losses)
        if step % 3 == 2 and (healthy or rank == 0):
            print(f"mean {mean_of_all(losses.sum())}")
        dist.broadcast(losses, src=0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
