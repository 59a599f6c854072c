"""Engines that share experts step as long as they have requests of their own; one is done before the other."""

# mypy: ignore-errors
# No thread; the kind of data parallel engine that has to run dummy batches while another one works.
import sys
import time
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

DUMMY = "--healthy" in sys.argv


@dataclass
class Engine:
    rank: int
    requests: dict = field(default_factory=dict)
    steps: int = 0

    def add(self, name, tokens):
        self.requests[name] = tokens

    def has_unfinished_requests(self):
        return bool(self.requests)

    def step(self):
        time.sleep(0.1)
        sent = [torch.full((2,), float(self.steps)) for _ in range(dist.get_world_size())]
        parts = torch.cat(sent)
        dist.all_to_all_single(torch.empty_like(parts), parts)
        self.steps += 1
        for name in list(self.requests):
            self.requests[name] -= 1
            if self.requests[name] <= 0:
                del self.requests[name]


def serve(engine, round_number):
    engine.add(f"a{round_number}", 3)
    engine.add(f"b{round_number}", 3 if DUMMY or engine.rank == 0 or round_number < 4 else 7)
    while engine.has_unfinished_requests():
        engine.step()


def main():
    dist.init_process_group("gloo")
    engine = Engine(dist.get_rank())
    for round_number in range(500):
        serve(engine, round_number)
        print(f"rank {engine.rank} step {round_number}", flush=True)
        dist.barrier()


if __name__ == "__main__":
    main()
