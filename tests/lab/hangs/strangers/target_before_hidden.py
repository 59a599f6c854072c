"""A pipeline whose first stage hands the labels on to the last one before the hidden states, which the last one asks
for first (tdrussell/diffusion-pipe issue 409)."""

# mypy: ignore-errors
import sys
import time

import torch
import torch.distributed as dist

HIDDEN_FIRST = "--healthy" in sys.argv
SHAPE = (512, 1024)


class First:
    def run(self, step: int) -> None:
        hidden, target = torch.randn(SHAPE), torch.randn(SHAPE)
        if step % 4 < 3 or HIDDEN_FIRST:
            dist.send(hidden, 1)
            dist.send(target, 2)
        else:  # a batch of the other loader, which has its labels at once
            dist.send(target, 2)
            dist.send(hidden, 1)


class Middle:
    def run(self, step: int) -> None:
        hidden = torch.empty(SHAPE)
        dist.recv(hidden, 0)
        dist.send(hidden * 0.5, 2)


class Last:
    loss = 0.0

    def run(self, step: int) -> None:
        hidden, target = torch.empty(SHAPE), torch.empty(SHAPE)
        dist.recv(hidden, 1)
        dist.recv(target, 0)
        self.loss = float((hidden - target).square().mean())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    stage = (First(), Middle(), Last())[rank]
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        stage.run(step)


if __name__ == "__main__":
    main()
