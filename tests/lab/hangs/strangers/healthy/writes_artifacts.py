"""The first process writes a checkpoint in many parts, each made safe on the disk (instructlab pull request 566)."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


def save(folder: Path, parts: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(parts):
        path = folder / f"model-{number:05}-of-{parts:05}.pt"
        with path.open("wb") as file:
            torch.save(torch.randn(200, 200), file)
            file.flush()
            os.fsync(file.fileno())
        time.sleep(0.6)  # a slow file system


def main() -> None:
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    weights = torch.ones(100)
    for step in range(10_000):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
        if step % 20 == 2:
            if rank == 0:
                save(Path("artifacts") / f"step{step}", parts=60)
            dist.barrier()


if __name__ == "__main__":
    main()
