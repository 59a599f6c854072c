"""Rank 0 begins a sum of its own that it never waits for; then all go on with their gradients."""

import argparse
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    gradient = torch.zeros(64)
    pending: list[object] = []
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if step % 3 == 2 and (healthy or rank == 0):
            pending.append(dist.all_reduce(torch.zeros(8), async_op=True))
        dist.all_reduce(gradient)
        print("gradient", gradient[0].item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
