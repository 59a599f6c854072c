"""A metric is gathered by the ranks that have something to gather (trl issue 3933)."""

import time

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn


def high_entropy_mask(accelerator: Accelerator, entropies: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    local = entropies[mask.bool()]
    if local.numel() == 0:
        return torch.zeros_like(entropies).bool()
    everywhere = accelerator.gather(local.mean().reshape(1))
    return entropies > everywhere.quantile(0.8)


def main() -> None:
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    model = accelerator.prepare(nn.Linear(6, 6))
    for step in range(1000):
        time.sleep(0.2)
        entropies = torch.rand(5)
        mask = torch.zeros(5) if rank == 2 and step == 5 else torch.ones(5)
        chosen = high_entropy_mask(accelerator, entropies, mask)
        loss = (model(torch.randn(5, 6)).mean(1) * chosen).sum()
        accelerator.backward(loss)
        print(f"rank {rank} step {step}", flush=True)
        total = accelerator.reduce(loss.detach(), "mean")
        if step % 10 == 9:
            accelerator.print("loss", float(total))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
