"""An archive may be read by one process at a time, under a lock on a file; all wait for their turn."""

# mypy: ignore-errors
import fcntl
import time
from pathlib import Path

import torch
import torch.distributed as dist


def read(path: Path) -> None:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(1.4)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        read(Path.cwd() / "archive.lock")
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
