"""A checkpoint after so many seconds, counted by each process for itself."""

# mypy: ignore-errors
import pathlib
import shutil
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel


class Clock:
    """Seconds since the last time, as this machine counts them."""

    def __init__(self, offset=0.0):
        self.offset = offset
        self.last = time.monotonic()

    @property
    def elapsed(self):
        return time.monotonic() - self.last + self.offset

    def restart(self):
        self.last = time.monotonic()


class Checkpointer:
    def __init__(self, folder, model, optimizer, every, clock):
        self.folder = pathlib.Path(folder)
        self.model, self.optimizer = model, optimizer
        self.every = every
        self.clock = clock
        self.number = 0

    @property
    def due(self):
        return self.clock.elapsed > self.every

    def maybe_save(self, step):
        if not self.due:
            return
        self.clock.restart()
        self.number += 1
        where = self.folder / f"{self.number % 2}"
        dcp.save({"model": self.model.state_dict(), "step": step}, checkpoint_id=where)

    def clean(self):
        if dist.get_rank() == 0:
            shutil.rmtree(self.folder, ignore_errors=True)


def main():
    healthy = "--healthy" in sys.argv
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(5, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    clock = Clock(offset=0.7 if rank == 0 and not healthy else 0.0)
    checkpointer = Checkpointer("checkpoints", model, optimizer, 1e9 if healthy else 2.5, clock)
    checkpointer.clean()
    for step in range(2000):
        time.sleep(0.3)
        optimizer.zero_grad()
        model(torch.rand(2, 5)).sum().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        checkpointer.maybe_save(step)


if __name__ == "__main__":
    main()
