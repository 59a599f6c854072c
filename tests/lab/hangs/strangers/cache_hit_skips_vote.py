"""Processes vote on the fastest kernel, but for those that have it in their cache (pytorch pull request 193043)."""

# mypy: ignore-errors
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Autotuner:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def _measure(self, shape: int) -> dict[str, float]:
        return {f"block{size}": abs(shape - size) / 100 for size in (16, 32, 64)}

    def best(self, shape: int) -> str:
        entry = self.folder / f"{shape}.json"
        if entry.exists():
            return json.loads(entry.read_text())
        votes = [None] * dist.get_world_size()
        dist.all_gather_object(votes, self._measure(shape))
        chosen = min(votes[0], key=lambda name: sum(vote[name] for vote in votes))
        entry.write_text(json.dumps(chosen))
        return chosen


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tuner = Autotuner(Path(os.environ.get("TUNE_CACHE", "cache")) / f"node{rank}")
    if rank == 2:  # this machine has been used by the run before
        (tuner.folder / "40.json").write_text('"block32"')
    for step in range(1000):
        time.sleep(0.2)
        kernel = tuner.best(shape=8 * (step // 3 + 3))
        total = torch.ones(8)
        dist.all_reduce(total)
        print(f"rank {rank} step {step} {kernel}", flush=True)


if __name__ == "__main__":
    main()
