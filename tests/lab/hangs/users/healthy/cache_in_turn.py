"""Each rank in turn builds its part of a cache under a file lock."""

import time

import torch
import torch.distributed as dist
from filelock import FileLock


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        with FileLock("cache.lock"):
            time.sleep(2.0)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
