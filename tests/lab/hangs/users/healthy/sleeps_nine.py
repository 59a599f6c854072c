"""Rank 1 pauses nine seconds between attempts to reach a license server, and goes on."""

import time

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step >= 1:
            time.sleep(8)


if __name__ == "__main__":
    main()
