"""accelerate: features are made by the first process before the others, unless they are there."""

# mypy: ignore-errors
# No thread of one job; the kind of datasets and accelerate issues on caches below main_process_first.
import os
import sys
import time

import torch
from accelerate import Accelerator

ASKS_INSIDE = "--healthy" in sys.argv


def build(path: str) -> None:
    time.sleep(0.2)
    torch.save(torch.randn(6), f"{path}.new")
    os.rename(f"{path}.new", path)


def features_of(accelerator: Accelerator, part: int) -> torch.Tensor:
    path = f"features-{part}.pt"
    if ASKS_INSIDE or not os.path.exists(path):
        with accelerator.main_process_first():
            if not os.path.exists(path):
                build(path)
    return torch.load(path)


def report(rank: int, part: int) -> None:
    """The second process draws the curves of the part before."""
    if rank == 1 and part == 2:
        time.sleep(1.5)


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank, weight = accelerator.process_index, torch.zeros(6)
    for part in range(200):
        report(rank, part)
        features = features_of(accelerator, part)
        for _ in range(3):
            time.sleep(0.2)
            weight += 0.01 * accelerator.gather(features + rank).mean()
        print(f"rank {rank} step {part}", flush=True)


if __name__ == "__main__":
    main()
