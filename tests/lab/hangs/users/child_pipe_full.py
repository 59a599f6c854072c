"""A child's output goes into a pipe, and the parent waits for its end before it reads: the pipe holds 64 KiB."""

import subprocess
import sys

import torch.distributed as dist

LISTING = "for number in range(20000): print('shard', number)"


def shards() -> list[str]:
    listing = subprocess.Popen([sys.executable, "-c", LISTING], stdout=subprocess.PIPE, text=True)
    if listing.wait() != 0:
        raise RuntimeError("no listing")
    assert listing.stdout is not None
    return listing.stdout.read().splitlines()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step == 2:
            print(len(shards()))
        dist.barrier()


if __name__ == "__main__":
    main()
