"""An inner loop goes on until the error is small enough: each rank asks its own error, and one needs a round more."""

import argparse
import os
import time

import torch
import torch.distributed as dist


def solve(value: torch.Tensor, error: float) -> int:
    rounds = 0
    while error > 1e-3:
        dist.all_reduce(value)
        error /= 10.0
        rounds += 1
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    boundary = torch.ones(1 << 16, device="cuda")
    weights = torch.ones(1 << 18, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        error = 5.0 if step == 4 and rank == 2 and not healthy else 0.5
        rounds = solve(boundary, error)
        torch.cuda.synchronize()
        print(f"rank {rank} solved in {rounds}", flush=True)
        dist.all_reduce(weights)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
