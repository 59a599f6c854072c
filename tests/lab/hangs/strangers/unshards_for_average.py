"""FSDP2: a moving average is kept by the first process, which unshards the weights for it."""

# mypy: ignore-errors
# The kind of torch forum questions on EMA with fully_shard. No thread of one job.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

TOGETHER = "--healthy" in sys.argv


class Average:
    def __init__(self, decay: float = 0.9) -> None:
        self.decay, self.weights = decay, {}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        model.unshard()
        for name, weight in model.named_parameters():
            if name not in self.weights:
                self.weights[name] = weight.detach().clone()
            else:
                self.weights[name].lerp_(weight.detach(), 1 - self.decay)
        model.reshard()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    average = Average() if rank == 0 or TOGETHER else None
    for step in range(2000):
        time.sleep(0.2)
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        if average is not None and step % 5 == 4:
            average.update(model)


if __name__ == "__main__":
    main()
