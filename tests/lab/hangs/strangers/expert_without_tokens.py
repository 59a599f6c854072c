"""On one rank no token is sent to an expert, which then has no gradient there (DeepSpeed issue 5066)."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class MoE(nn.Module):
    def __init__(self, dim: int = 16, experts: int = 3) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, hidden: torch.Tensor, route: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(hidden)
        for index, expert in enumerate(self.experts):
            chosen = (route == index).nonzero(as_tuple=True)[0]
            if chosen.numel():
                out = out.index_add(0, chosen, expert(hidden[chosen]))
        return out


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    layer = DistributedDataParallel(MoE())
    optimizer = torch.optim.AdamW(layer.parameters())
    for step in range(1000):
        time.sleep(0.2)
        route = torch.arange(12) % 3
        if rank == 2 and step == 4:
            route = torch.arange(12) % 2
        loss = layer(torch.randn(12, 16), route).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.barrier()
        print(f"rank {rank} step {step} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
