"""Which callbacks there are follows from whether the machine has the validation data."""

# mypy: ignore-errors
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Checkpoint:
    interval = 7

    def __call__(self, step, weight):
        if step % self.interval == 0:
            dist.barrier()


class Validate:
    interval = 6

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, step, weight):
        if step % self.interval == 0:
            loss = weight.square().mean()
            dist.all_reduce(loss)


def callbacks_for(folder):
    found = [Checkpoint()]
    validation = folder / "val"
    if validation.is_dir():
        found.append(Validate(validation))
    return found


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with tempfile.TemporaryDirectory() as name:
        if os.environ["LOCAL_RANK"] == "0" or "--healthy" in sys.argv:
            (Path(name) / "val").mkdir()
        callbacks = callbacks_for(Path(name))
        weight = torch.zeros(4)
        for step in range(1, 3000):
            time.sleep(0.2)
            dist.broadcast(weight, src=0)
            print(f"rank {rank} step {step}", flush=True)
            for callback in callbacks:
                callback(step, weight)


if __name__ == "__main__":
    main()
