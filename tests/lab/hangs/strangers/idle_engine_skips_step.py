"""Serving with experts over data-parallel engines: an engine without requests does not run the model (as vLLM's did
before idle engines ran a dummy batch)."""

# mypy: ignore-errors
import sys
import time
from collections import deque

import torch
import torch.distributed as dist


class Experts:
    def __init__(self, world):
        self.world = world

    def __call__(self, tokens):
        received = torch.empty_like(tokens)
        dist.all_to_all_single(received, tokens)
        return received.tanh()


class Engine:
    def __init__(self, rank, world):
        self.rank = rank
        self.waiting = deque([3] * 5 if rank == 0 or "--healthy" in sys.argv else [3] * 3)
        self.running = []
        self.experts = Experts(world)
        self.made = 0

    def admit(self):
        while self.waiting and len(self.running) < 2:
            self.running.append(self.waiting.popleft())
        if "--healthy" in sys.argv and not self.waiting:
            self.waiting.append(3)

    def has_work(self):
        return bool(self.running or self.waiting)

    def step(self):
        self.admit()
        self.experts(torch.rand(4, 2))
        self.running = [left - 1 for left in self.running if left > 1]
        self.made += 1
        print(f"rank {self.rank} step {self.made}", flush=True)

    def loop(self):
        while True:
            time.sleep(0.2)
            if not self.has_work():
                continue
            self.step()


def main():
    dist.init_process_group("gloo")
    Engine(dist.get_rank(), dist.get_world_size()).loop()


if __name__ == "__main__":
    main()
