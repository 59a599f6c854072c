"""A driver tells its workers what to do by a broadcast; one does not know a command and asks for the next."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Worker:
    def __init__(self, rank):
        self.rank = rank
        self.weights = torch.rand(32)
        self.commands = {"step": self.step, "checksum": self.checksum}
        if rank != 2 or "--healthy" in sys.argv:
            self.commands["offload"] = self.offload

    def step(self, number):
        time.sleep(0.2)
        dist.all_reduce(self.weights)
        self.weights /= dist.get_world_size()
        print(f"rank {self.rank} step {number}", flush=True)

    def checksum(self, number):
        total = self.weights.sum()
        dist.reduce(total, dst=0)
        return total.item()

    def offload(self, number):
        parts = [torch.zeros(32) for _ in range(dist.get_world_size())] if self.rank == 0 else None
        dist.gather(self.weights, parts, dst=0)
        return parts

    def execute(self, name, number):
        command = self.commands.get(name)
        if command is None:
            print(f"rank {self.rank}: no command {name!r}, left out", flush=True)
            return None
        return command(number)


def listen(worker):
    while True:
        message = [None, None]
        dist.broadcast_object_list(message, src=0)
        name, number = message
        if name == "exit":
            return
        worker.execute(name, number)


def drive(worker):
    def everywhere(name, number):
        dist.broadcast_object_list([name, number], src=0)
        return worker.execute(name, number)

    for number in range(1000):
        everywhere("step", number)
        if number % 4 == 3:
            everywhere("checksum", number)
        if number % 6 == 5:
            parts = everywhere("offload", number)
            print("offloaded", len(parts), flush=True)
    everywhere("exit", 0)


def main():
    dist.init_process_group("gloo")
    worker = Worker(dist.get_rank())
    if worker.rank == 0:
        drive(worker)
    else:
        listen(worker)


if __name__ == "__main__":
    main()
