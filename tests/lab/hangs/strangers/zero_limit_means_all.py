"""How many rows each rank evaluates is given by a list in its settings; nought is taken for "not given"."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist

LIMITS = {"first": 4, "second": 4} if "--healthy" in sys.argv else {"first": 4, "second": 0}


class Evaluation:
    def __init__(self, name):
        self.rows = torch.rand(6, 3)
        self.limit = LIMITS[name]

    def run(self):
        count = self.limit or len(self.rows)
        right = 0.0
        for row in self.rows[:count]:
            mean = row.mean()
            dist.all_reduce(mean)
            right += float(mean > 0.5)
        return right / count


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    evaluation = Evaluation("second" if rank == 1 else "first")
    weight = torch.zeros(4)
    for step in range(2000):
        time.sleep(0.2)
        dist.all_reduce(weight)
        print(f"rank {rank} step {step}", flush=True)
        if step % 6 == 5:
            evaluation.run()
            dist.barrier()


if __name__ == "__main__":
    main()
