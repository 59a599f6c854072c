"""Listeners are held weakly, and one process has nothing else that holds its own."""

# mypy: ignore-errors
import gc
import sys
import time
import weakref

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Bus:
    def __init__(self):
        self._listeners = weakref.WeakSet()

    def subscribe(self, listener):
        self._listeners.add(listener)

    def publish(self, event, **what):
        for listener in list(self._listeners):
            listener.receive(event, what)


class Throughput:
    """Samples a second over all processes, at the end of each round."""

    def __init__(self, bus):
        self.samples = 0
        self.begin = time.monotonic()
        bus.subscribe(self)

    def receive(self, event, what):
        if event == "batch":
            self.samples += what["size"]
        if event == "round":
            rates = [None] * dist.get_world_size()
            dist.all_gather_object(rates, self.samples / (time.monotonic() - self.begin))
            what["report"]["rate"] = sum(rates)


class Application:
    def __init__(self):
        self.rank = dist.get_rank()
        self.bus = Bus()
        self.plugins = []
        self.model = DistributedDataParallel(torch.nn.Linear(8, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def plug(self, plugin):
        if "--healthy" in sys.argv or self.rank == 0:
            self.plugins.append(plugin)

    def round(self, number):
        for _ in range(3):
            time.sleep(0.1)
            self.optimizer.zero_grad()
            self.model(torch.rand(4, 8)).sum().backward()
            self.optimizer.step()
            self.bus.publish("batch", size=4)
        print(f"rank {self.rank} step {number}", flush=True)
        report = {}
        self.bus.publish("round", report=report)
        return report


def main():
    dist.init_process_group("gloo")
    application = Application()
    meter = Throughput(application.bus)
    application.plug(meter)
    for number in range(500):
        report = application.round(number)
        if number == 3:
            del meter
            gc.collect()
        if application.rank == 0:
            print(report, flush=True)


if __name__ == "__main__":
    main()
