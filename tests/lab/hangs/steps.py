"""A training loop that communicates once a step and prints how far it is.

`--steps N` ends it by itself; nothing in it knows gpudoctor.
"""

import argparse
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=0.7)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    gradient = torch.ones(1 << 16)
    for step in range(arguments.steps):
        time.sleep(arguments.seconds)
        dist.all_reduce(gradient)
        print(f"step {step} of rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
