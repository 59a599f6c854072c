"""Validation on the first GPU by the wrapped model, whose buffers are broadcast in forward (pytorch issue 54059)."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn


def validate(model: nn.Module, device: str) -> float:
    model.eval()
    right = 0.0
    with torch.no_grad():
        for _ in range(3):
            output = model(torch.randn(8, 3, 8, 8, device=device))
            right += output.argmax(1).float().mean().item()
    model.train()
    return right


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    args, _ = parser.parse_known_args()
    dist.init_process_group("gloo")
    gpu = int(os.environ["LOCAL_RANK"])
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
    net = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        for i in range(4):
            time.sleep(0.1)
            loss = net(torch.randn(8, 3, 8, 8)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"rank {gpu} step {i} of {epoch}", flush=True)
        if gpu == 0:
            print("accuracy", validate(net, "cpu"), flush=True)
        dist.barrier()


if __name__ == "__main__":
    main()
