"""Statistics of the tasks are averaged one after another, the largest first (the kind of NVIDIA/apex 19)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist

TASKS = ("caption", "detect", "segment", "depth", "pose", "ocr", "retrieve", "count")


class Statistics:
    def __init__(self):
        self.groups = {task: dist.new_group(ranks=[0, 1]) for task in TASKS}
        self.sums = {task: torch.zeros(2) for task in TASKS}
        self.dirty = set()

    def size(self, task):
        return float(self.sums[task][0])

    def add(self, task, loss):
        self.sums[task] += torch.tensor([loss, 1.0])
        self.dirty.add(task)

    def synchronize(self):
        pending = sorted(self.dirty, key=self.size, reverse=True)
        for task in pending:
            dist.all_reduce(self.sums[task], group=self.groups[task])
        self.dirty.clear()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    statistics = Statistics()
    weight = torch.zeros(3)
    for step in range(2000):
        time.sleep(0.2)
        dist.all_reduce(weight)
        easy = rank == 1 and step % 8 == 5 and "--healthy" not in sys.argv
        statistics.add(TASKS[step % len(TASKS)], 0.5 if easy else 1.0 + step % 8)
        print(f"rank {rank} step {step}", flush=True)
        if step % 8 == 7:
            statistics.synchronize()


if __name__ == "__main__":
    main()
