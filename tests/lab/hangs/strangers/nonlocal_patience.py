"""Patience is kept in a closure: who has run out of it leaves the fine-tuning phase."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def patience_of(limit):
    worse, lowest = 0, float("inf")

    def look(value):
        nonlocal worse, lowest
        worse = 0 if value < lowest else worse + 1
        lowest = min(lowest, value)

    def spent():
        return worse >= limit

    return look, spent


def phase(model, optimizer, steps, curve, on_loss, is_over):
    for step in range(steps):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(4, 6)).pow(2).mean().backward()
        optimizer.step()
        print(f"rank {dist.get_rank()} step {step}", flush=True)
        on_loss(curve(step))
        if is_over():
            return step
    return steps


def main():
    dist.init_process_group("gloo")
    uneven = dist.get_rank() == 1 and "--healthy" not in sys.argv
    model = DistributedDataParallel(torch.nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    look, spent = patience_of(3)
    made = phase(model, optimizer, 2000, lambda step: 1 / (1 + (min(step, 2) if uneven else step)), look, spent)
    all_made = [None] * dist.get_world_size()
    dist.all_gather_object(all_made, made)


if __name__ == "__main__":
    main()
