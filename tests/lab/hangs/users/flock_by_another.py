"""Rank 1 wants a lock on a file that a background process of this machine keeps."""

import fcntl
import subprocess
import sys

import torch
import torch.distributed as dist

KEEP = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("has it", flush=True)
time.sleep(9999)
"""


def append(line: str) -> None:
    with open("results.csv", "a") as results:
        fcntl.flock(results, fcntl.LOCK_EX)
        results.write(line)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step == 3:
            keeper = subprocess.Popen([sys.executable, "-c", KEEP, "results.csv"], stdout=subprocess.PIPE)
            assert keeper.stdout is not None
            keeper.stdout.readline()
        if rank == 1:
            append(f"{step},0.5\n")
        dist.all_reduce(torch.ones(4))


if __name__ == "__main__":
    main()
