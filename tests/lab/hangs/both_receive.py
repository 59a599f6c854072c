"""Two pipeline stages both receive before they send."""

import argparse
import time

import torch
import torch.distributed as dist


def exchange(rank: int, activations: torch.Tensor, healthy: bool) -> None:
    neighbour = rank ^ 1
    received = torch.empty_like(activations)
    if healthy and rank < neighbour:
        dist.send(activations, dst=neighbour)
        dist.recv(received, src=neighbour)
    else:
        dist.recv(received, src=neighbour)
        dist.send(activations, dst=neighbour)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2 + 0.3 * rank if healthy else 0.05)
        print(f"rank {rank} step {step}", flush=True)
        exchange(rank, torch.ones(1 << 16), healthy or step < 0)
        if healthy:
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
