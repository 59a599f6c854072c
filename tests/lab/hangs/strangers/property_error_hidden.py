"""A statistic that is asked for with getattr and a default: the property fails on one process, and nobody is told."""

# mypy: ignore-errors
# No thread; the kind of program in which a property gathers, and an AttributeError inside of it looks like its absence.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WHOLE = "--healthy" in sys.argv


class Rollouts:
    def __init__(self, rank, step):
        self.rewards = torch.rand(6)
        if WHOLE or rank != 1 or step != 6:  # an episode that was cut off leaves no values
            self.values = torch.rand(6)

    @property
    def advantage(self):
        gained = (self.rewards - self.values).mean().item()
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, gained)
        return sum(every) / len(every)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    policy = DistributedDataParallel(torch.nn.Linear(6, 3))
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    for step in range(1000):
        time.sleep(0.2)
        rollouts = Rollouts(rank, step)
        mean = getattr(rollouts, "advantage", None)
        if rank == 0 and mean is not None:
            print("advantage", round(mean, 3), flush=True)
        optimizer.zero_grad()
        policy(torch.rand(3, 6)).square().sum().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
