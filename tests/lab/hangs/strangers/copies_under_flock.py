"""Weights are copied by a shell command under flock, while the process itself holds the file locked."""

# mypy: ignore-errors
# No thread; the kind of copy that a cluster's guide recommends.
import fcntl
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

UNLOCKS = "--healthy" in sys.argv


def publish(folder, step):
    lock = os.path.join(folder, "publish.lock")
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        source = os.path.join(folder, "weights.pt")
        torch.save({"step": step}, source)
        if UNLOCKS:
            fcntl.flock(held, fcntl.LOCK_UN)
        subprocess.run(["flock", lock, "cp", source, os.path.join(folder, "latest.pt")], check=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1000):
            time.sleep(0.2)
            total = torch.rand(2)
            dist.all_reduce(total)
            print(f"rank {rank} step {step}", flush=True)
            if step % 5 == 4 and rank == 1:
                publish(folder, step)


if __name__ == "__main__":
    main()
