"""How gradients are combined is an object; which one follows from what a process measured of its own link."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Exact:
    def combine(self, gradient):
        dist.all_reduce(gradient)
        return gradient / dist.get_world_size()


class Delayed:
    def __init__(self, interval):
        self.interval, self.kept, self.seen = interval, 0.0, 0

    def combine(self, gradient):
        self.kept = self.kept + gradient
        self.seen += 1
        if self.seen % self.interval:
            return torch.zeros_like(gradient)
        total, self.kept = self.kept, 0.0
        return Exact().combine(total) / self.interval


def gigabits(rank):
    started = time.perf_counter()
    torch.rand(200_000).sum()
    spent = time.perf_counter() - started
    return 0.8 if rank == 1 and "--healthy" not in sys.argv else 25.0 + 0 * spent


def make_reducer(rank):
    measured = gigabits(rank)
    if measured < 5.0:
        return Delayed(interval=4)
    return Exact()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    weight = torch.ones(16, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.01)
    reducer = None
    for step in range(2000):
        time.sleep(0.2)
        if step % 100 == 6:
            reducer = make_reducer(rank)
        weight.grad = None
        (weight * torch.rand(16)).sum().backward()
        weight.grad = (reducer or Exact()).combine(weight.grad)
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 4:
            dist.barrier()


if __name__ == "__main__":
    main()
