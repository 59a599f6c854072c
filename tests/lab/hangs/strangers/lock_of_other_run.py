"""A download that hangs since yesterday still holds the lock of the cache (huggingface_hub issue 2543)."""

# mypy: ignore-errors
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from huggingface_hub.utils import WeakFileLock

YESTERDAY = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(100000)
"""


def fetch(cache: Path, name: str) -> Path:
    lock = cache / ".locks" / f"{name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        blob = cache / name
        blob.write_bytes(b"weights")
        return blob


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    cache = Path("hub").absolute()
    weights = torch.zeros(8)
    if rank == 0:
        (cache / ".locks").mkdir(parents=True, exist_ok=True)
        words = [sys.executable, "-c", YESTERDAY, str(cache / ".locks" / "model.safetensors.lock")]
        other = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True, env=dict(os.environ, RANK="-1"))
        assert other.stdout is not None
        other.stdout.readline()
    for step in range(3):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
    if rank == 0:
        print("have", fetch(cache, "model.safetensors"), flush=True)
    dist.barrier()
    for _ in range(4000):
        time.sleep(0.2)
        dist.all_reduce(weights)


if __name__ == "__main__":
    main()
