"""Samples are gathered at the process with the lowest load, which each works out from what it knows itself."""

# mypy: ignore-errors
# No thread; the kind of gather whose destination is not agreed upon.
import sys
import time

import torch
import torch.distributed as dist

AGREED = "--healthy" in sys.argv


class Balancer:
    def __init__(self):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.load = [0.0] * self.world

    def note(self, work):
        self.load[self.rank] += work

    def head(self):
        if AGREED:
            return 0
        return self.load.index(min(self.load))


def main():
    dist.init_process_group("gloo")
    balancer = Balancer()
    for step in range(1000):
        time.sleep(0.2)
        total = torch.rand(1)
        dist.all_reduce(total)
        print(f"rank {balancer.rank} step {step}", flush=True)
        if step % 6 == 5:
            head = balancer.head()
            space = [None] * balancer.world if balancer.rank == head else None
            dist.gather_object({"step": step}, space, dst=head)
            balancer.note(1.0)


if __name__ == "__main__":
    main()
