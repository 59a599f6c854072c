"""An index is written under a file's lock; a helper that one rank has started keeps the file open, and so its lock."""

import fcntl
import os
import subprocess
import time
from pathlib import Path

import torch
import torch.distributed as dist


def write_index(path: Path, text: str) -> None:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    path = Path(f"index-{rank}")
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(1 << 16, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step == 3 and rank == 2:
            kept = path.open("a")
            fcntl.flock(kept, fcntl.LOCK_EX)
            subprocess.Popen(["sleep", "300"], pass_fds=[kept.fileno()])
            kept.close()
        if step % 2 == 1:
            write_index(path, f"{step}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
