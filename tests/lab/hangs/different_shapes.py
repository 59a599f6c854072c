"""Ranks add up tensors of different length: the one with less gets on, and waits in the next step."""

import argparse
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--arm", action="store_true")
    arguments = parser.parse_args()
    if arguments.arm:
        import gpudoctor

        gpudoctor.arm()
    healthy = arguments.healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.3 + 0.4 * rank if healthy else 0.05)
        print(f"rank {rank} step {step}", flush=True)
        length = 1 << 20 if healthy or step < 3 or rank == 0 else 1 << 22
        dist.all_reduce(torch.ones(length))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
