"""What was tracked is gathered when the program ends, and one process ends alone."""

# mypy: ignore-errors
import atexit
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Tracker:
    def __init__(self):
        self.values = {}
        atexit.register(self.finish)

    def track(self, **values):
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def finish(self):
        means = {name: sum(values) / len(values) for name, values in self.values.items()}
        everywhere = [None] * dist.get_world_size()
        dist.all_gather_object(everywhere, means)
        if dist.get_rank() == 0:
            print("run", everywhere, flush=True)


class Corpus:
    def __init__(self, rank):
        self.rank = rank

    def read(self, step):
        if step == 6 and self.rank == 2 and "--healthy" not in sys.argv:
            raise OSError("record is cut short")
        return torch.rand(4, 10)


def train(tracker):
    rank = dist.get_rank()
    corpus = Corpus(rank)
    model = DistributedDataParallel(torch.nn.Linear(10, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step in range(1000):
        time.sleep(0.2)
        try:
            rows = corpus.read(step)
        except OSError as error:
            print(f"rank {rank}: {error}", flush=True)
            sys.exit(3)
        optimizer.zero_grad()
        loss = model(rows).square().mean()
        loss.backward()
        optimizer.step()
        tracker.track(loss=loss.item())
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(Tracker())
