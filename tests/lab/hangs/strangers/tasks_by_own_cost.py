"""Layers are exchanged in the order of what they cost the last time, as each process measured it."""

# mypy: ignore-errors
import heapq
import sys
import time

import torch
import torch.distributed as dist

LAYERS = ("embed", "mixer", "head")


class Exchange:
    def __init__(self, rank):
        self.rank = rank
        self.groups = {layer: dist.new_group() for layer in LAYERS}
        self.cost = dict.fromkeys(LAYERS, 1.0)

    def measure(self, step):
        if self.rank == 0 and step == 6 and "--healthy" not in sys.argv:
            self.cost["head"] = 0.2

    def run(self, gradients):
        waiting = []
        for number, layer in enumerate(LAYERS):
            heapq.heappush(waiting, (self.cost[layer], number, layer))
        while waiting:
            _, _, layer = heapq.heappop(waiting)
            dist.all_reduce(gradients[layer], group=self.groups[layer])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    exchange = Exchange(rank)
    for step in range(2000):
        time.sleep(0.2)
        exchange.measure(step)
        exchange.run({layer: torch.rand(4) for layer in LAYERS})
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
