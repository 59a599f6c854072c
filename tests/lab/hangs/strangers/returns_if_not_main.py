"""Only the first process writes, and a barrier stands behind where the others have returned."""

# mypy: ignore-errors
# No thread: after a usual save_checkpoint.
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


class Checkpointer:
    def __init__(self, folder: Path, rank: int) -> None:
        self.folder, self.rank = folder, rank

    def save(self, model: nn.Module, step: int) -> None:
        state = model.state_dict()
        if self.rank != 0:
            return
        target = self.folder / f"step-{step}.pt"
        torch.save(state, target.with_suffix(".tmp"))
        target.with_suffix(".tmp").rename(target)
        dist.barrier()


def train(rank: int) -> None:
    model, checkpointer = nn.Linear(4, 4), Checkpointer(Path(), rank)
    for step in range(1000):
        time.sleep(0.2)
        model(torch.randn(2, 4)).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        model.zero_grad()
        print(f"rank {rank} step {step}", flush=True)
        if step % 5 == 4:
            checkpointer.save(model, step)


def main() -> None:
    dist.init_process_group("gloo")
    train(dist.get_rank())


if __name__ == "__main__":
    main()
