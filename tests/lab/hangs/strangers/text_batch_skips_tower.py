"""FSDP2: a tower for pictures is run where the batch of this process has pictures."""

# mypy: ignore-errors
# No thread of one job; the kind of LLaVA and torchtune issues on batches of text alone under FSDP and ZeRO-3.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

ALL_WITH_PICTURES = "--healthy" in sys.argv


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Linear(6, 6)
        self.trunk = nn.Sequential(nn.ReLU(), nn.Linear(6, 6))

    def forward(self, text: torch.Tensor, pictures: torch.Tensor | None) -> torch.Tensor:
        hidden = text
        if pictures is not None:
            hidden = hidden + self.tower(pictures).mean(0)
        return self.trunk(hidden)


def batch_of(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    without = rank == 1 and step == 5 and not ALL_WITH_PICTURES
    return torch.randn(4, 6), None if without else torch.randn(2, 6)


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model, mesh = Reader(), init_device_mesh("cpu", (world,))
    for part in (model.tower, model.trunk, model):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1000):
        time.sleep(0.3)
        print(f"rank {rank} step {step}", flush=True)
        loss = model(*batch_of(rank, step)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses = [torch.zeros(()) for _ in range(world)]
        dist.all_gather(losses, loss.detach())


if __name__ == "__main__":
    main()
