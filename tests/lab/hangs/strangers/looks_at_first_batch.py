"""Each pass over the data agrees on a seed with all; the first process begins one more pass to show a batch."""

# mypy: ignore-errors
# No thread of one job; the kind of accelerate and detectron2 issues on next(iter(loader)) on one process.
import random
import sys
import time

import torch
import torch.distributed as dist

HIDDEN = "--healthy" in sys.argv


class Shuffled:
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __iter__(self):
        seed = torch.tensor(float(random.randrange(1 << 20)))
        dist.all_reduce(seed, op=dist.ReduceOp.MAX)
        order = torch.randperm(self.rows, generator=torch.Generator().manual_seed(int(seed)))
        for number in order.tolist():
            yield torch.full((4,), float(number))


def show(rank: int, data: Shuffled) -> None:
    if rank == 0 and not HIDDEN:
        print("looks like", next(iter(data)).tolist(), flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    data = Shuffled(8)
    for epoch in range(1000):
        print(f"rank {rank} step {epoch}", flush=True)
        if epoch == 3:
            show(rank, data)
        total = 0.0
        for rows in data:
            time.sleep(0.1)
            mean = rows.mean()
            dist.all_reduce(mean)
            total += float(mean)
        dist.barrier()


if __name__ == "__main__":
    main()
