"""Methods that run when their condition holds: a decorator asks it."""

# mypy: ignore-errors
import functools
import sys
import time

import torch
import torch.distributed as dist


def when(condition):
    def decorate(method):
        @functools.wraps(method)
        def wrapped(self, *args):
            if condition(self):
                return method(self, *args)
            return None

        return wrapped

    return decorate


class Distiller:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.student = torch.nn.Linear(5, 5)
        self.teacher = torch.nn.Linear(5, 5)
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=0.05)
        self.agreement = 0.0

    def observe(self, step):
        self.agreement = min(0.95, 0.1 * step)
        if self.rank == 2 and "--healthy" not in sys.argv:
            self.agreement = min(self.agreement, 0.6)

    def train_step(self):
        rows = torch.rand(6, 5)
        self.optimizer.zero_grad()
        (self.student(rows) - self.teacher(rows).detach()).square().mean().backward()
        for weight in self.student.parameters():
            dist.all_reduce(weight.grad)
            weight.grad /= self.world
        self.optimizer.step()

    @when(lambda self: self.agreement > 0.75)
    def refresh_teacher(self):
        for old, new in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            mean = new.detach().clone()
            dist.broadcast(mean, src=0)
            old.data.lerp_(mean, 0.1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    distiller = Distiller(rank, dist.get_world_size())
    for step in range(2000):
        time.sleep(0.2)
        distiller.train_step()
        distiller.observe(step)
        print(f"rank {rank} step {step}", flush=True)
        distiller.refresh_teacher()


if __name__ == "__main__":
    main()
