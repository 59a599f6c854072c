"""One rank downloads under a file lock for seven seconds each time, the others wait for the lock."""

import time

import torch
import torch.distributed as dist
from filelock import FileLock


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        time.sleep(0.1 * rank)
        with FileLock("hub.lock"):
            if rank == 0:
                time.sleep(7)


if __name__ == "__main__":
    main()
