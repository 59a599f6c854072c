"""One process builds an index under a lock on a file, the others wait for the lock, and all go on."""

# mypy: ignore-errors
import fcntl
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


def index(folder: Path, step: int) -> bytes:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / f"index-{step}"
        if not made.exists():
            time.sleep(4.0)
            made.write_bytes(b"x" * 16)
        return made.read_bytes()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = Path(f"indices-{os.getppid()}")
    folder.mkdir(exist_ok=True)
    for step in range(1000):
        time.sleep(0.3)
        if step % 3 == 2:
            index(folder, step)
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
