"""FSDP2 with layers left out at random; on one rank an augmentation draws from the same generator."""

import argparse
import os
import random
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard


class Stack(torch.nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(48, 48) for _ in range(depth))
        self.chance = random.Random(11)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if self.chance.random() < 0.4:
                continue
            x = layer(x)
        return x


def augmented(x: torch.Tensor, chance: random.Random) -> torch.Tensor:
    return x.flip(1) if chance.random() < 0.5 else x


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = Stack(8).cuda()
    for layer in (*model.layers, model):
        fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        batch = torch.ones(6, 48, device="cuda", requires_grad=True)
        if step >= 3 and rank == 2 and not healthy:
            batch = augmented(batch, model.chance)
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
