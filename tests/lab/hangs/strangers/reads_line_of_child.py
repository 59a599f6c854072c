"""A command draws its progress with carriage returns, and its reader waits for the end of a line (mlcommons/storage
issue 391)."""

import select
import subprocess
import sys
import time

import torch
import torch.distributed as dist

READER = """
import sys, time
sys.stdout.write("reading 0 %\\r")
sys.stdout.flush()
time.sleep(100_000)
"""
QUICK = "print('read everything')"


def run(program: str) -> list[str]:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    lines = []
    while process.poll() is None:
        readable, _, _ = select.select([process.stdout], [], [], 0.1)
        if readable:
            line = process.stdout.readline()
            lines.append(line.rstrip())
    return lines


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 2:
            run(READER if rank == 2 and step > 6 else QUICK)
        dist.barrier()


if __name__ == "__main__":
    main()
