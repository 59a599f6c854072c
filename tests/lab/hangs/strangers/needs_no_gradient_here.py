"""A layer whose backward sums over processes is not gone back through where its input needs no gradient."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist


class Shared(torch.autograd.Function):
    @staticmethod
    def forward(context, rows):
        return rows.clone()

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = torch.nn.Linear(5, 5), torch.nn.Linear(5, 2)

    def thaw(self, wanted):
        self.trunk.requires_grad_(wanted)

    def forward(self, rows):
        return self.head(Shared.apply(self.trunk(rows)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    best = 1.0
    for step in range(2000):
        time.sleep(0.2)
        low = step < 5 or rank != 1 or "--healthy" in sys.argv
        best = min(best, 0.5 if low else 0.1)
        model.thaw(best > 0.2)
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        model(torch.rand(3, 5)).square().mean().backward()
        optimizer.step()
        if step % 4 == 3:
            dist.barrier()


if __name__ == "__main__":
    main()
