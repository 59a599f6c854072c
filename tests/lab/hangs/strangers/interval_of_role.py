"""Two kinds of workers of one class: what one of them overrides is asked by a method of both."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Worker:
    average_every = 4

    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.policy = torch.nn.Linear(3, 2)
        self.steps = 0

    def work(self):
        raise NotImplementedError

    def run(self, rounds):
        for _ in range(rounds):
            self.work()
            self.steps += 1
            print(f"rank {self.rank} step {self.steps}", flush=True)
            if self.steps % self.average_every == 0:
                self.average()
            if self.steps % 6 == 0:
                dist.barrier()

    def average(self):
        for weight in self.policy.parameters():
            dist.all_reduce(weight.data)
            weight.data /= self.world


class Learner(Worker):
    def __init__(self, rank, world):
        super().__init__(rank, world)
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.1)

    def work(self):
        time.sleep(0.2)
        self.optimizer.zero_grad()
        self.policy(torch.rand(8, 3)).square().mean().backward()
        self.optimizer.step()


class Actor(Worker):
    def work(self):
        with torch.no_grad():
            for _ in range(10):
                self.policy(torch.rand(1, 3))
        time.sleep(0.2)


class FastActor(Actor):
    """For small environments."""

    average_every = 40


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    small = rank == 2 and "--healthy" not in sys.argv
    kind = Learner if rank == 0 else FastActor if small else Actor
    worker = kind(rank, world)
    worker.run(2000)


if __name__ == "__main__":
    main()
