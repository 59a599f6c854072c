"""What follows a step is looked up by the name of its outcome, and only one outcome has a handler that gathers."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Trainer:
    def __init__(self, rank):
        self.rank, self.limit = rank, 2.0
        self.weight = torch.zeros(4)
        self.worst = []

    def outcome(self, step):
        spread = 3.5 if (self.rank, step) == (1, 6) and "--healthy" not in sys.argv else 0.5
        return "outlier" if spread > self.limit else "usual"

    def after_outlier(self, step):
        rows = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, torch.tensor([float(step)]))
        self.worst.append(torch.cat(rows).max().item())

    def step(self, step):
        time.sleep(0.2)
        dist.all_reduce(self.weight)
        handler = getattr(self, f"after_{self.outcome(step)}", None)
        print(f"rank {self.rank} step {step}", flush=True)
        if handler is not None:
            handler(step)


def main():
    dist.init_process_group("gloo")
    trainer = Trainer(dist.get_rank())
    for number in range(2000):
        trainer.step(number)


if __name__ == "__main__":
    main()
