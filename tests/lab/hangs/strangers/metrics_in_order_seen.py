"""Metrics are combined in the order in which a process has met them, which is not the same everywhere."""

# mypy: ignore-errors
# No thread of one job; the kind of issues on collectives over the keys of a dictionary or set.
import sys
import time
from collections import defaultdict

import torch
import torch.distributed as dist

SORTED = "--healthy" in sys.argv


class Metrics:
    def __init__(self) -> None:
        self.values = defaultdict(list)

    def add(self, name: str, value) -> None:
        self.values[name].append(value)

    def combined(self) -> dict:
        names = sorted(self.values) if SORTED else list(self.values)
        found = {}
        for name in names:
            values = self.values[name]
            if isinstance(values[0], str):
                everybody = [None] * dist.get_world_size()
                dist.all_gather_object(everybody, values)
                found[name] = [value for part in everybody for value in part]
            else:
                mean = torch.tensor(values).mean()
                dist.all_reduce(mean)
                found[name] = float(mean) / dist.get_world_size()
        return found


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for epoch in range(1000):
        metrics = Metrics()
        for step in range(3):
            time.sleep(0.1)
            first = "labelled" if rank != 1 or epoch < 2 else "unlabelled"
            if step > 0 or first == "labelled":
                metrics.add("loss", 1.0 / (step + 1))
            metrics.add("files", f"{first} {step}")
        print(f"rank {rank} step {epoch}", flush=True)
        metrics.combined()


if __name__ == "__main__":
    main()
