"""Each machine keeps its part of a distributed checkpoint on its own disk, and takes one for complete that has the
metadata, which the coordinator writes to its own."""

# mypy: ignore-errors
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn


class Checkpoints:
    def __init__(self, rank):
        shared = "--healthy" in sys.argv
        self.folder = Path("checkpoints" if shared else f"disk{rank}/checkpoints")

    def save(self, model, step):
        dcp.save({"model": model.state_dict()}, checkpoint_id=str(self.folder / f"step-{step}"))

    def latest(self):
        complete = [path for path in self.folder.glob("step-*") if (path / ".metadata").exists()]
        return max(complete, key=os.path.getmtime, default=None)


def roll_back(model, checkpoints):
    found = checkpoints.latest()
    if found is None:
        print("nothing to go back to", flush=True)
        return False
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=str(found))
    model.load_state_dict(state["model"])
    return True


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    checkpoints = Checkpoints(rank)
    for step in range(2000):
        time.sleep(0.2)
        loss = torch.tensor(9.0 if step == 6 else 1.0)
        dist.all_reduce(loss)
        print(f"rank {rank} step {step}", flush=True)
        if step == 3:
            checkpoints.save(model, step)
        if loss > 4:
            roll_back(model, checkpoints)


if __name__ == "__main__":
    main()
