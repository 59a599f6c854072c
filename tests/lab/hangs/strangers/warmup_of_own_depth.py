"""Pipeline stages run one forward, one backward after their warm-up; one counts fewer stages behind itself."""

# mypy: ignore-errors
# After https://github.com/pytorch/pytorch/issues/172668: both neighbours wait for what the other sends later.
import sys
import time

import torch
import torch.distributed as dist

MICROBATCHES = 4


class Stage:
    def __init__(self, rank, world, depth):
        self.rank, self.world, self.depth = rank, world, depth
        self.layer = torch.nn.Linear(4, 4)
        self.kept, self.sent = [], []

    def receive(self, peer):
        tensor = torch.empty(2, 4)
        dist.recv(tensor, peer)
        return tensor

    def forward(self):
        inputs = torch.rand(2, 4) if self.rank == 0 else self.receive(self.rank - 1)
        outputs = self.layer(inputs)
        self.kept.append(outputs)
        if self.rank < self.world - 1:
            self.sent.append(dist.isend(outputs.detach(), self.rank + 1))

    def backward(self):
        outputs = self.kept.pop(0)
        gradient = torch.ones(2, 4) if self.rank == self.world - 1 else self.receive(self.rank + 1)
        outputs.backward(gradient)
        if self.rank > 0:
            dist.send(gradient, self.rank - 1)

    def step(self):
        warmup = min(self.depth - self.rank - 1, MICROBATCHES)
        for _ in range(warmup):
            self.forward()
        for _ in range(MICROBATCHES - warmup):
            self.forward()
            self.backward()
        for _ in range(warmup):
            self.backward()
        while self.sent:
            self.sent.pop().wait()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = Stage(rank, world, world)
    for step in range(2000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        if step == 5 and rank == 1 and "--healthy" not in sys.argv:
            stage.depth = 7  # read anew from a file of the larger job
        stage.step()


if __name__ == "__main__":
    main()
