"""new_group is called by the group's members only; the next group has another number on the rank that left it out."""

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
    print(f"rank {rank} has joined", flush=True)
    everybody = list(range(dist.get_world_size()))
    members = everybody[:-1]
    if healthy or rank in members:
        dist.new_group(members)
    evaluation = dist.new_group(everybody)
    for step in range(1000):
        time.sleep(0.2 + 0.3 * rank)
        dist.all_reduce(torch.ones(64), group=evaluation)
        print(f"rank {rank} step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
