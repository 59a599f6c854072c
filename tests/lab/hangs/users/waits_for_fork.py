"""os.fork and os.waitpid, as old code does it: the child waits for its standard input."""

import os
import sys

import torch
import torch.distributed as dist


def in_background(step: int) -> None:
    pid = os.fork()
    if pid == 0:
        sys.stdin.readline()
        os._exit(0)
    os.waitpid(pid, 0)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step == 3:
            in_background(step)
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
