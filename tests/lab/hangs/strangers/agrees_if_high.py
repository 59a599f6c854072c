"""Whether a step is left out: its own loss is asked first, and then all others."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class SpikeGuard:
    def __init__(self, factor):
        self.factor = factor
        self.mean = None

    def agreed(self, flag):
        votes = [None] * dist.get_world_size()
        dist.all_gather_object(votes, flag)
        return sum(votes) > len(votes) // 2

    def update(self, loss):
        self.mean = loss if self.mean is None else 0.9 * self.mean + 0.1 * loss

    def spike(self, loss):
        return self.mean is not None and loss > self.factor * self.mean


def batches(rank):
    for number in range(2000):
        rows = torch.ones(4, 5)
        if number == 6 and rank == 1 and "--healthy" not in sys.argv:
            rows *= 40
        yield rows


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(3)
    model = DistributedDataParallel(torch.nn.Linear(5, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    guard = SpikeGuard(factor=4.0)
    for step, rows in enumerate(batches(rank)):
        time.sleep(0.2)
        loss = model(rows).square().mean()
        value = loss.item()
        print(f"rank {rank} step {step} loss {value:.3f}", flush=True)
        if guard.spike(value) and guard.agreed(True):
            print(f"rank {rank} leaves out step {step}", flush=True)
            continue
        guard.update(value)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
