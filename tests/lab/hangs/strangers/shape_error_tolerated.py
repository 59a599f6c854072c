"""A step that fails on its own process is reported by a decorator and left out."""

# mypy: ignore-errors
# After https://github.com/pytorch/torchtitan/issues/1790: shapes differ on one rank, and the error stays there.
import functools
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def tolerant(method):
    @functools.wraps(method)
    def wrapped(self, *args, **kwargs):
        try:
            return method(self, *args, **kwargs)
        except ValueError as error:
            self.failures.append(str(error))
            return None

    return wrapped


class Fuse(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Conv2d(2 * width, width, 1)

    def forward(self, low, high):
        if low.shape[2:] != high.shape[2:]:
            raise ValueError(f"{tuple(low.shape[2:])} is not {tuple(high.shape[2:])}")
        return self.mix(torch.cat([low, high], dim=1))


class Learner:
    def __init__(self, rank):
        self.rank = rank
        self.failures = []
        self.model = DistributedDataParallel(Fuse(4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    @tolerant
    def update(self, low, high):
        loss = self.model(low, high).abs().mean()
        loss.backward()
        return loss.item()

    def run(self, images):
        for step, (low, high) in enumerate(images):
            time.sleep(0.2)
            print(f"rank {self.rank} step {step}", flush=True)
            self.optimizer.zero_grad()
            loss = self.update(low, high)
            if loss is None:
                continue
            self.optimizer.step()
            if step % 5 == 0:
                mean = torch.tensor(loss)
                dist.all_reduce(mean)
        dist.barrier()


def images(rank, count):
    for number in range(count):
        odd = rank == 1 and number == count - 1
        high = 9 if odd and "--healthy" not in sys.argv else 8
        yield torch.rand(2, 4, 8, 8), torch.rand(2, 4, 8, high)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    Learner(rank).run(images(rank, 1500 if "--healthy" in sys.argv else 6))


if __name__ == "__main__":
    main()
