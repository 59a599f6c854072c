"""A breakpoint was left in, and one rank comes to it."""

import argparse
import time

import torch
import torch.distributed as dist


def check(rank: int, loss: float, debug: bool) -> None:
    if debug and loss > 2.5 and rank == 1:
        breakpoint()
        print(loss)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2 + 0.3 * rank if healthy else 0.05)
        dist.all_reduce(torch.ones(64))
        print(f"rank {rank} step {step}", flush=True)
        check(rank, float(step), debug=not healthy)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
