"""Rank 0 validates with the DDP model itself, not with its module: each forward pass sends the buffers to all ranks."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(32, 4)
        self.register_buffer("running_mean", torch.zeros(4))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layer(images)
        if self.training:
            self.running_mean.mul_(0.9).add_(scores.detach().mean(0), alpha=0.1)
        return scores - self.running_mean


@torch.no_grad()
def validate(model: torch.nn.Module) -> float:
    model.eval()
    total = 0.0
    for _ in range(5):
        total += model(torch.ones(16, 32, device="cuda")).mean().item()
    model.train()
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(Net().cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(16, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 4 and rank == 0:
            print("validation", validate(model.module if healthy else model), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
