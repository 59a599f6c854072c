"""A staged checkpoint is copied between two barriers, of which one is in a `finally` (VeOmni pull request 1164)."""

import os
import shutil
import time
from pathlib import Path

import torch
import torch.distributed as dist


class StagedCheckpointer:
    def __init__(self, stage: Path, final: Path) -> None:
        self.stage, self.final = stage, final
        self.leads = os.environ["LOCAL_RANK"] == "0"

    def save(self, weights: torch.Tensor, step: int) -> None:
        shards = self.stage / f"step{step}"
        if self.leads:
            shards.mkdir(parents=True, exist_ok=True)
            torch.save(weights, shards / "weights.pt")
        try:
            self.promote(shards, self.final / f"step{step}")
        except OSError as error:
            print("not promoted:", error, flush=True)

    def promote(self, shards: Path, target: Path) -> None:
        try:
            if self.leads:
                shutil.copytree(shards, target)
            dist.barrier()
            if self.leads:
                (target / "complete").touch()
        finally:
            if self.leads:
                shutil.rmtree(shards, ignore_errors=True)
            dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    final = Path("final")
    if rank == 0:
        (final / "step9").mkdir(parents=True)  # somebody else's
    checkpointer = StagedCheckpointer(Path("stage"), final)
    weights = torch.ones(10)
    for step in range(1000):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 4:
            checkpointer.save(weights, step)


if __name__ == "__main__":
    main()
