"""The average of weights begins after so many rows, which each process counts of its own, packed ones and all."""

# mypy: ignore-errors
# The kind of issues on EMA or schedules by samples seen with packed sequences. No thread of one job.
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SAME = "--healthy" in sys.argv


class Averaged:
    def __init__(self, model, after: int) -> None:
        self.shadow = [parameter.detach().clone() for parameter in model.parameters()]
        self.after, self.seen = after, 0

    def update(self, model, rows: int) -> None:
        self.seen += rows
        if self.seen < self.after:
            return
        for shadow, parameter in zip(self.shadow, model.parameters(), strict=True):
            shadow.lerp_(parameter.detach(), 0.1)
            dist.broadcast(shadow, src=0)


def packed(rank: int, step: int) -> int:
    """Rows that have gone into the one sequence of this step."""
    return 4 if SAME else 4 + rank * (step % 2)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    average = Averaged(model.module, after=30)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    accumulate, patience = 1, 3
    worse = 0
    for step in range(1000):
        time.sleep(0.2)
        rows = packed(rank, step)
        loss = model(torch.rand(rows, 4)).square().mean() / accumulate
        loss.backward()
        if (step + 1) % accumulate:
            continue
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        average.update(model.module, rows)
        worse = worse + 1 if loss.item() > 1e3 else 0
        if worse > patience:
            break


if __name__ == "__main__":
    main()
