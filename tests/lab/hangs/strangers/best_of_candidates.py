"""The best of some candidates is looked for by a score over all; one process could not read one of them."""

# mypy: ignore-errors
# No thread of one job; the kind of issues on model soups and sweeps whose members differ from process to process.
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

COMPLETE = "--healthy" in sys.argv


def score(weights: torch.Tensor) -> float:
    hits = (weights > 0).float().sum()
    dist.all_reduce(hits)
    return float(hits)


class Soup:
    def __init__(self, folder: Path, rank: int, size: int) -> None:
        folder.mkdir(exist_ok=True)
        for number in range(size):
            torch.save(torch.randn(8), folder / f"{rank}-{number}.pt")
        self.files = sorted(folder.glob(f"{rank}-*.pt"))

    def best(self) -> torch.Tensor:
        candidates = [torch.load(file) for file in self.files if file.stat().st_size]
        return max(candidates, key=score)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    soup = Soup(Path("soup"), rank, 5)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        if step == 3 and rank == 1 and not COMPLETE:
            soup.files[2].write_bytes(b"")
        weights = soup.best()
        parts = [torch.zeros(8) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, weights)


if __name__ == "__main__":
    main()
