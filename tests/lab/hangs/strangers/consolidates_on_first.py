"""The state of a sharded optimizer is brought together on the process that writes it, by that process alone."""

# mypy: ignore-errors
# No thread of one job; the kind of forum posts on ZeroRedundancyOptimizer.consolidate_state_dict(to=0).
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

TOGETHER = "--healthy" in sys.argv


class Run:
    def __init__(self, writes: bool) -> None:
        self.writes = writes
        self.model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)))
        self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.Adam, lr=0.01)

    def step(self) -> None:
        self.model(torch.randn(2, 4)).square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def checkpoint(self) -> dict | None:
        if TOGETHER:
            self.optimizer.consolidate_state_dict(to=0)
        if not self.writes:
            return None
        if not TOGETHER:
            self.optimizer.consolidate_state_dict(to=0)
        return {"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    run = Run(writes=not rank)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        run.step()
        if step % 5 == 4:
            run.checkpoint()


if __name__ == "__main__":
    main()
