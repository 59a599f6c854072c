"""One process reads its rows from a command that decodes them, at its pace."""

# mypy: ignore-errors
import subprocess
import sys
import time

import torch
import torch.distributed as dist

DECODER = "import time\nfor n in range(10000):\n    time.sleep(1.7)\n    print(n, flush=True)"


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rows = None
    if rank == 1:
        rows = subprocess.Popen([sys.executable, "-c", DECODER], stdout=subprocess.PIPE, text=True).stdout
    for step in range(1000):
        time.sleep(0.1)
        value = float(rows.readline()) if rows is not None else 0.0
        dist.all_reduce(torch.tensor([value]))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
