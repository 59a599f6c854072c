"""The best score is a global of the module, and every process compares its own score with its own best."""

# mypy: ignore-errors
# No thread; the kind of script that grew out of a notebook.
import sys
import time

import torch
import torch.distributed as dist

best = 0.0
SAME = "--healthy" in sys.argv


def evaluate(rank, epoch):
    lucky = 1.0 if SAME or rank == 0 or epoch < 4 else -3.0
    return 0.5 + 0.1 * epoch * lucky


def maybe_snapshot(weights, score):
    global best
    if score > best:
        best = score
        parts = [torch.zeros_like(weights) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, weights)
        return torch.cat(parts)
    return None


def run():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    shard = torch.rand(8)
    for epoch in range(500):
        for _ in range(3):
            time.sleep(0.1)
            grad = torch.rand(8)
            dist.all_reduce(grad)
            shard -= 0.01 * grad
        snapshot = maybe_snapshot(shard, evaluate(rank, epoch))
        print(f"rank {rank} step {epoch}", "saved" if snapshot is not None else "", flush=True)


if __name__ == "__main__":
    run()
