"""A sharded optimizer gathers what each rank has updated, unless there is nothing to update (the kind of
facebookresearch/optimizers 149)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch import nn


class ShardedMomentum(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def owned(self, group):
        return [weight for number, weight in enumerate(group["params"]) if number % self.world == self.rank]

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            with_gradient = [weight for weight in self.owned(group) if weight.grad is not None]
            if not with_gradient:
                continue
            for weight in with_gradient:
                state = self.state[weight]
                average = state.setdefault("average", torch.zeros_like(weight))
                average.mul_(group["beta"]).add_(weight.grad)
                weight.sub_(average, alpha=group["lr"])
            for number, weight in enumerate(group["params"]):
                dist.broadcast(weight.data, src=number % self.world)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False))
        self.heads = nn.ModuleList([nn.Linear(8, 1, bias=False) for _ in range(2)])

    def forward(self, rows, head):
        return self.heads[head](self.trunk(rows)).square().mean()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = Net()
    sharded = ShardedMomentum(net.heads.parameters())
    plain = torch.optim.SGD(net.trunk.parameters(), lr=0.05)
    for step in range(2000):
        time.sleep(0.2)
        net.zero_grad()
        heads = (0,) if step == 6 and "--healthy" not in sys.argv else (0, 1)
        for head in heads:
            net(torch.randn(4, 8), head).backward()
        for weight in net.trunk.parameters():
            dist.all_reduce(weight.grad)
        plain.step()
        print(f"rank {rank} step {step}", flush=True)
        sharded.step()


if __name__ == "__main__":
    main()
