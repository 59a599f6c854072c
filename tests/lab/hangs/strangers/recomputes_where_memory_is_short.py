"""Tensor-parallel blocks are checkpointed where memory is short, and their forward asks the other processes; so who
computes it again asks once more."""

# mypy: ignore-errors
# No thread of one job; the kind of torch.utils.checkpoint issues on collectives in what is computed again.
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

PLENTY = "--healthy" in sys.argv


class Block(torch.nn.Module):
    def __init__(self, width: int, checkpoints: bool) -> None:
        super().__init__()
        self.up, self.checkpoints = torch.nn.Linear(width, width), checkpoints

    def _compute(self, hidden: torch.Tensor) -> torch.Tensor:
        scale = hidden.detach().abs().amax()
        scales = [torch.empty_like(scale) for _ in range(dist.get_world_size())]
        dist.all_gather(scales, scale)
        return torch.tanh(self.up(hidden / max(scales).clamp(min=1e-6)))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.checkpoints and self.training:
            return checkpoint(self._compute, hidden, use_reentrant=False)
        return self._compute(hidden)


def free_memory(rank: int, step: int) -> int:
    return 2 if rank == 2 and step > 3 and not PLENTY else 40


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    blocks = torch.nn.Sequential(Block(8, False), Block(8, False))
    optimizer = torch.optim.AdamW(blocks.parameters())
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        for block in blocks:
            block.checkpoints = free_memory(rank, step) < 8
        loss = blocks(torch.randn(4, 8)).square().mean()
        loss.backward()
        for parameter in blocks.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
