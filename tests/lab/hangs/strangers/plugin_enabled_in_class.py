"""Plugins are switched on by an attribute of their class, which the environment decides when it is defined."""

# mypy: ignore-errors
import os
import sys
import time

import torch
import torch.distributed as dist


class Plugin:
    enabled = True
    every = 1

    def due(self, step):
        return self.enabled and step % self.every == 0


class Clip(Plugin):
    def run(self, step, weights):
        norm = weights.norm().square()
        dist.all_reduce(norm)


class Histogram(Plugin):
    enabled = os.environ["RANK"] == "0" or "--healthy" in sys.argv
    every = 6

    def run(self, step, weights):
        rows = [torch.zeros_like(weights) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, weights)
        self.bins = torch.cat(rows).histc(8)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    plugins = [Clip(), Histogram()]
    weights = torch.rand(16)
    for step in range(1, 2000):
        time.sleep(0.2)
        dist.broadcast(weights, src=0)
        print(f"rank {rank} step {step}", flush=True)
        for plugin in plugins:
            if plugin.due(step):
                plugin.run(step, weights)


if __name__ == "__main__":
    main()
