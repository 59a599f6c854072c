"""Each process looks for the state of the last run on its own disk, then it is sent round (KempnerForge 49)."""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


class CheckpointManager:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.step = 0

    def load(self) -> None:
        path = self.folder / "train_state.pt"
        if not path.exists():
            return
        state: list[Any] = [torch.load(path) if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(state, src=0)
        self.step = state[0]["step"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch", type=Path, default=Path("scratch"))
    options, _ = parser.parse_known_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    own = options.scratch / ("node1" if rank == 2 else "node0")
    own.mkdir(parents=True, exist_ok=True)
    if rank == 0:
        torch.save({"step": 40}, own / "train_state.pt")
    dist.barrier()
    print(f"rank {rank} step 1 is next", flush=True)
    manager = CheckpointManager(own)
    manager.load()
    weights = torch.ones(32)
    for step in range(manager.step, 5000):
        time.sleep(0.2)
        dist.all_reduce(weights)
        print(f"rank {rank} made step {step}", flush=True)


if __name__ == "__main__":
    main()
