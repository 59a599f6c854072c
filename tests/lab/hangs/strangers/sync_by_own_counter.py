"""Accumulation by a counter of the trainer, which a skipped batch sets back on one process."""

# mypy: ignore-errors
# No thread; the kind of trainer that decides about no_sync() by what it has counted itself.
import contextlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

COUNTS_ALL = "--healthy" in sys.argv


class Accumulating:
    def __init__(self, model, every):
        self.model = model
        self.every = every
        self.seen = 0
        self.optimizer = torch.optim.AdamW(model.parameters())

    @property
    def last(self):
        return (self.seen + 1) % self.every == 0

    def micro_step(self, rows):
        context = contextlib.nullcontext() if self.last else self.model.no_sync()
        with context:
            loss = self.model(rows).square().mean() / self.every
            loss.backward()
        if not torch.isfinite(loss) and not COUNTS_ALL:
            self.optimizer.zero_grad()
            self.seen = 0
            return
        if self.last:
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.seen += 1


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    trainer = Accumulating(DistributedDataParallel(torch.nn.Linear(5, 2)), every=4)
    for step in range(2000):
        time.sleep(0.1)
        rows = torch.rand(3, 5)
        if rank == 1 and step == 9:
            rows[0, 0] = float("nan")
        trainer.micro_step(rows)
        print(f"rank {rank} step {step}", flush=True)
        if step % 12 == 11:
            dist.barrier()


if __name__ == "__main__":
    main()
