"""A signal that one rank has got becomes an exception after its batch, and its teardown meets the others' next step
(Lightning pull request 20825)."""

import os
import signal
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class SIGTERMException(SystemExit):
    pass


class FitLoop:
    def __init__(self, model: nn.Module, rank: int) -> None:
        self.model, self.rank = model, rank
        self.received_sigterm = False
        signal.signal(signal.SIGTERM, self.note)

    def note(self, number: int, frame: object) -> None:
        self.received_sigterm = True

    def on_advance_end(self) -> None:
        if self.received_sigterm:
            raise SIGTERMException

    def advance(self, step: int) -> None:
        self.model(torch.randn(4, 32)).sum().backward()
        print(f"rank {self.rank} step {step}", flush=True)

    def run(self) -> None:
        for step in range(1000):
            time.sleep(0.3)
            self.advance(step)
            self.on_advance_end()


def teardown() -> None:
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, "done")
    dist.destroy_process_group()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    loop = FitLoop(DistributedDataParallel(nn.Linear(32, 32)), rank)
    if rank == 0:  # the scheduler's notice comes to one node
        threading.Timer(2.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    try:
        loop.run()
    except SIGTERMException:
        print("terminated", flush=True)
    finally:
        teardown()


if __name__ == "__main__":
    main()
