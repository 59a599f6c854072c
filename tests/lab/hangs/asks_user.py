"""Rank 0 asks whether it may overwrite a folder, and nobody answers a job."""

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
    if rank == 0 and not healthy:
        answer = input("runs/7 exists already. Overwrite? [y/N] ")
        if answer != "y":
            raise SystemExit(1)
    dist.barrier()
    for step in range(1000):
        time.sleep(0.2 + 0.3 * rank)
        dist.all_reduce(torch.ones(64))
        print(f"rank {rank} step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
