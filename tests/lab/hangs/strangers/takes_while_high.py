"""Hard negatives are taken while their score is high, and scored against the negatives of the others."""

# mypy: ignore-errors
# No thread; the kind of loop that itertools.takewhile ends.
import itertools
import sys
import time

import torch
import torch.distributed as dist

ALIKE = "--healthy" in sys.argv


def negatives(rank, step):
    scores = [0.9, 0.8, 0.7, 0.3]
    if rank == 1 and step == 5 and not ALIKE:
        scores = [0.9, 0.4, 0.7, 0.3]
    return scores


def compare(score):
    best = torch.tensor([score])
    dist.all_reduce(best, op=dist.ReduceOp.MAX)
    return best.item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        time.sleep(0.2)
        total = 0.0
        for score in itertools.takewhile(lambda score: score > 0.5, negatives(rank, step)):
            total += compare(score)
        print(f"rank {rank} step {step}", flush=True)
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, (step, total))


if __name__ == "__main__":
    main()
