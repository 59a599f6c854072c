"""DDP was told that the graph never changes; one process leaves a head out when its batch has no labels for it."""

# mypy: ignore-errors
# No thread; the kind of model with a head that not every batch needs.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ALWAYS = "--healthy" in sys.argv


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 6)
        self.first = nn.Linear(6, 1)
        self.second = nn.Linear(6, 1)

    def forward(self, rows, has_second):
        hidden = self.body(rows)
        out = self.first(hidden).mean()
        if has_second:
            out = out + self.second(hidden).mean()
        return out


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(TwoHeads(), static_graph=True, bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.2)
        has_second = ALWAYS or rank == 0 or step != 5
        optimizer.zero_grad()
        model(torch.rand(2, 6), has_second).backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        dist.barrier()


if __name__ == "__main__":
    main()
