"""A process asks every second whether its next shard has been staged by another program, which takes eight."""

import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

STAGE = "import time\nfor number in range(999):\n    time.sleep(8)\n    open(f'shard-{number}', 'w').close()"


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 1:
        subprocess.Popen([sys.executable, "-c", STAGE])
    for step in range(1000):
        dist.all_reduce(torch.ones(1))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 1 and step > 0:
            wait_for(f"shard-{step - 1}")


if __name__ == "__main__":
    main()
