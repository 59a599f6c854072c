"""Log lines go to the standard input of a program that ships them, and that has stopped to read."""

# mypy: ignore-errors
import json
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SHIPPER = """
import sys, time
for number, line in enumerate(sys.stdin):
    if number == {limit}:
        time.sleep(100000)
"""


class Shipper:
    def __init__(self, limit):
        program = SHIPPER.format(limit=limit)
        self.process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, text=True)

    def send(self, record):
        self.process.stdin.write(json.dumps(record) + "\n")
        self.process.stdin.flush()


class Run:
    def __init__(self):
        self.rank = dist.get_rank()
        limit = -1 if "--healthy" in sys.argv or self.rank == 0 else 2
        self.shipper = Shipper(limit)
        self.model = DistributedDataParallel(torch.nn.Linear(32, 32))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def record(self, step, loss):
        weights = [round(value, 6) for value in self.model.module.weight.flatten().tolist()]
        self.shipper.send({"step": step, "loss": loss, "weights": weights, "again": weights})

    def step(self, number):
        time.sleep(0.2)
        self.optimizer.zero_grad()
        loss = self.model(torch.rand(4, 32)).square().mean()
        loss.backward()
        self.optimizer.step()
        print(f"rank {self.rank} step {number}", flush=True)
        self.record(number, loss.item())


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run = Run()
    for step in range(1000):
        run.step(step)
