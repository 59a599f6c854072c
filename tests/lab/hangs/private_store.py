"""A training that initialises its process group by an address of its own, although torchrun has told it one.

With --healthy it takes torchrun's.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    if parser.parse_args().healthy:
        dist.init_process_group("gloo")
    else:
        address = f"tcp://{os.environ['MASTER_ADDR']}:23456"
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
    for step in range(10_000):
        time.sleep(0.7)
        dist.all_reduce(torch.ones(8))
        print(f"step {step} of rank {dist.get_rank()} of {dist.get_world_size()}", flush=True)


if __name__ == "__main__":
    main()
