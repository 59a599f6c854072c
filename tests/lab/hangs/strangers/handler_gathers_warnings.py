"""A logging handler that tells what every process has warned of."""

# mypy: ignore-errors
import logging
import math
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("trainer")


class EverywhereHandler(logging.Handler):
    """Collects the warnings of all processes on the first."""

    def __init__(self, rank, world):
        super().__init__(level=logging.WARNING)
        self.rank, self.world = rank, world

    def emit(self, record):
        texts = [None] * self.world
        dist.all_gather_object(texts, self.format(record))
        if self.rank == 0:
            for number, text in enumerate(texts):
                print(f"[{number}] {text}", flush=True)


class Trainer:
    def __init__(self, rank):
        self.rank = rank
        self.model = DistributedDataParallel(torch.nn.Linear(4, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def scale(self, step):
        if step == 6 and self.rank == 1 and "--healthy" not in sys.argv:
            return math.inf
        return 1.0

    def check(self, loss, step):
        if not math.isfinite(loss):
            log.warning("loss %s at step %d", loss, step)

    def train(self, steps):
        for step in range(steps):
            time.sleep(0.2)
            self.optimizer.zero_grad()
            loss = self.model(torch.rand(3, 4)).square().mean()
            self.check(loss.item() * self.scale(step), step)
            loss.backward()
            self.optimizer.step()
            print(f"rank {self.rank} step {step}", flush=True)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    log.addHandler(EverywhereHandler(rank, world))
    log.setLevel(logging.INFO)
    Trainer(rank).train(2000)


if __name__ == "__main__":
    main()
