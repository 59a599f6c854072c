"""Rank 0 reduces in the group of the first two ranks, and the other one of that group does not."""

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
    pair = dist.new_group([0, 1])
    total = torch.zeros(64)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(total)
        if rank == 0 or (healthy and rank == 1) or (step < 3 and rank == 1):
            dist.all_reduce(total, group=pair)
        total.tolist()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
