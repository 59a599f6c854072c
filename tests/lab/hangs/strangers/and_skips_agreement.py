"""Is it safe to make the step? The own gradients first, and only if they are, what the others say."""

# mypy: ignore-errors
# No thread; the kind of condition whose second half is a collective.
import math
import sys
import time

import torch
import torch.distributed as dist

BOTH = "--healthy" in sys.argv


def all_agree(flag):
    vote = torch.tensor([int(flag)])
    dist.all_reduce(vote, op=dist.ReduceOp.MIN)
    return bool(vote.item())


class Guard:
    def __init__(self, limit):
        self.limit = limit
        self.skipped = 0

    def safe(self, norm):
        mine = math.isfinite(norm) and norm < self.limit
        if BOTH:
            return all_agree(mine)
        return mine and all_agree(mine)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    guard = Guard(50.0)
    weights = torch.rand(12)
    for step in range(1000):
        time.sleep(0.2)
        grad = torch.rand(12) * (100 if rank == 1 and step == 7 else 1)
        if guard.safe(grad.norm().item()):
            dist.all_reduce(grad)
            weights -= 0.001 * grad
        else:
            guard.skipped += 1
        print(f"rank {rank} step {step}", flush=True)
        shift = weights.mean().reshape(1, 1).clone()
        dist.all_gather([torch.zeros(1, 1) for _ in range(dist.get_world_size())], shift)


if __name__ == "__main__":
    main()
