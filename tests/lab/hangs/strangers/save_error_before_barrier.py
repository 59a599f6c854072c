"""A pending save is drained before the next: where it has failed, the barrier behind it is not reached."""

# mypy: ignore-errors
# After https://github.com/ByteDance-Seed/VeOmni/pull/1181 (review): the failing rank raises before the barrier.
import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("checkpoint")


class Checkpoints:
    def __init__(self, rank):
        self.rank, self.pending = rank, None
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")

    def _write(self, step, state):
        time.sleep(0.1)
        if self.rank == 2 and step == 4 and "--healthy" not in sys.argv:
            raise OSError(122, "Disk quota exceeded", f"step-{step}.pt")
        torch.save(state, f"step-{step}-{self.rank}.pt")

    def drain(self):
        if self.pending is None:
            return
        future, self.pending = self.pending, None
        future.result()
        dist.barrier()

    def save(self, step, model):
        try:
            self.drain()
        except Exception:
            log.exception("the last save failed; training goes on")
        state = {name: value.clone() for name, value in model.state_dict().items()}
        self.pending = self.executor.submit(self._write, step, state)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(5, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoints = Checkpoints(rank)
    for step in range(2000):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(2, 5)).sum().backward()
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        if step % 2 == 0:
            checkpoints.save(step, model.module)


if __name__ == "__main__":
    main()
