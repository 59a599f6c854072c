"""Tensor-parallel serving: each rank asks whether the prefetch of a request is over (the kind of sglang 38268)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Cache:
    def __init__(self, rank, group):
        self.rank, self.group = rank, group
        self.ongoing = {}

    def prefetch(self, request, pages):
        short = self.rank == 1 and request == "r6" and "--healthy" not in sys.argv
        if short:
            return  # fewer pages than are worth a transfer
        self.ongoing[request] = [pages, 0]

    def finished(self, request):
        if request not in self.ongoing:
            return True
        state = self.ongoing[request]
        state[1] += 1
        done = torch.tensor(int(state[1] >= state[0]))
        dist.all_reduce(done, op=dist.ReduceOp.MIN, group=self.group)
        if done:
            del self.ongoing[request]
        return bool(done)


class Scheduler:
    def __init__(self):
        self.rank = dist.get_rank()
        self.cache = Cache(self.rank, dist.new_group(backend="gloo"))
        self.tokens = torch.zeros(4)

    def run(self, request):
        while not self.cache.finished(request):
            time.sleep(0.05)
        for _ in range(3):
            dist.all_reduce(self.tokens)


def main():
    dist.init_process_group("gloo")
    scheduler = Scheduler()
    for step in range(2000):
        time.sleep(0.15)
        request = f"r{step}"
        scheduler.cache.prefetch(request, pages=2 + step % 2)
        scheduler.run(request)
        print(f"rank {scheduler.rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
