"""A trainer sends its weights to the process that generates: those that it trains; the other waits for all of them."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist
from torch import nn


def policy():
    torch.manual_seed(0)
    return nn.ModuleDict({"embed": nn.Linear(4, 4), "body": nn.Linear(4, 4), "head": nn.Linear(4, 1)})


class Trainer:
    def __init__(self):
        self.policy = policy()
        if "--healthy" not in sys.argv:
            self.policy["embed"].requires_grad_(False)

    def turn(self, rollouts):
        dist.recv(rollouts, src=1)
        for weight in self.policy.parameters():
            if weight.requires_grad:
                dist.broadcast(weight.data, src=0)


class Generator:
    def __init__(self):
        self.policy = policy()

    def turn(self, rollouts):
        dist.send(rollouts + 1, dst=0)
        for weight in self.policy.parameters():
            dist.broadcast(weight.data, src=0)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    role = Trainer() if rank == 0 else Generator()
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        role.turn(torch.zeros(4))


if __name__ == "__main__":
    main()
