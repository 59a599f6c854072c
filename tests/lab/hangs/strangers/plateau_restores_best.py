"""Where the rate is lowered the best weights are loaded again; plateaus are each process's own (after disruptcnn 3)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist
from torch import nn


def validation_loss(rank: int, epoch: int) -> float:
    """Of the part of this process: one stands still from the second epoch on."""
    return 1.0 if rank == 1 and epoch > 1 else 4.0 / (1 + epoch)


def rate_of(optimizer: torch.optim.Optimizer) -> float:
    return optimizer.param_groups[0]["lr"]


def restore(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, threshold=0.01)
    for epoch in range(1000):
        for _ in range(2):
            time.sleep(0.1)
            optimizer.zero_grad()
            model(torch.randn(2, 4)).sum().backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
        print(f"rank {rank} epoch {epoch}", flush=True)
        before = rate_of(optimizer)
        scheduler.step(validation_loss(rank, epoch))
        if rate_of(optimizer) < before:
            dist.barrier()
            restore(model)


if __name__ == "__main__":
    main()
