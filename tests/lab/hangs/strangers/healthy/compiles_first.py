"""Shapes are compiled on the first process when they come up; the others have them cached (nanochat 722)."""

import time

import torch
import torch.distributed as dist
from torch import nn


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    layers = [nn.Linear(16 + number, 16 + number) for number in range(60)]
    total = torch.zeros(1)
    for step in range(2):
        dist.all_reduce(total)
        print(f"rank {rank} step {step}", flush=True)
    for layer in layers:
        inputs = torch.randn(4, layer.in_features)
        if rank == 0:
            compiled = torch.compile(nn.Sequential(layer, nn.GELU(), nn.LayerNorm(layer.out_features)), dynamic=False)
            compiled(inputs).sum().backward()
        else:
            layer(inputs).sum().backward()
        time.sleep(0.1)
    dist.all_reduce(total)


if __name__ == "__main__":
    main()
