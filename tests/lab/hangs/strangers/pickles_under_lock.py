"""What is gathered takes its own lock while it is pickled, and a thread of one process keeps that lock."""

# mypy: ignore-errors
import queue
import sys
import threading
import time

import torch
import torch.distributed as dist


class Statistics:
    """Counters that a thread fills, and that can be sent."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = {}

    def add(self, key, value):
        with self.lock:
            self.counts[key] = self.counts.get(key, 0) + value

    def __getstate__(self):
        with self.lock:
            return {"counts": dict(self.counts)}

    def __setstate__(self, state):
        self.lock = threading.Lock()
        self.counts = state["counts"]


class Filler(threading.Thread):
    """Moves what comes in the queue to the statistics."""

    def __init__(self, statistics, source, careful):
        super().__init__(daemon=True)
        self.statistics, self.source, self.careful = statistics, source, careful

    def run(self):
        while True:
            if self.careful:
                self.statistics.add(*self.source.get())
                continue
            with self.statistics.lock:
                key, value = self.source.get()
                self.statistics.counts[key] = self.statistics.counts.get(key, 0) + value


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    statistics, source = Statistics(), queue.Queue()
    Filler(statistics, source, careful="--healthy" in sys.argv or rank == 0).start()
    model = torch.nn.Linear(3, 3)
    for step in range(1000):
        time.sleep(0.2)
        model.zero_grad()
        model(torch.rand(2, 3)).sum().backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
        source.put(("samples", 2))
        print(f"rank {rank} step {step}", flush=True)
        if step % 6 == 5:
            everywhere = [None] * dist.get_world_size()
            dist.all_gather_object(everywhere, statistics)
            if rank == 0:
                print("samples", sum(one.counts.get("samples", 0) for one in everywhere), flush=True)


if __name__ == "__main__":
    main()
