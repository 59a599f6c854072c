"""A lock on a file is taken, a server is started, and the file closed: the server has inherited the lock."""

# mypy: ignore-errors
# No thread: after flock and children that inherit.
import fcntl
import os
import subprocess
import time
from pathlib import Path

import torch
import torch.distributed as dist


class PortLock:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self):
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT)
        os.set_inheritable(self.file, True)  # the server writes its port there
        fcntl.flock(self.file, fcntl.LOCK_EX)
        return self

    def __exit__(self, *words) -> None:
        os.close(self.file)


def start_viewer(lock: PortLock) -> subprocess.Popen:
    with lock:
        return subprocess.Popen(["sleep", "100000"], close_fds=False)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    lock = PortLock(Path.cwd() / "viewer.lock")
    for step in range(1000):
        time.sleep(0.3)
        dist.all_reduce(torch.ones(4))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0 and step in (2, 5):
            start_viewer(lock)


if __name__ == "__main__":
    main()
