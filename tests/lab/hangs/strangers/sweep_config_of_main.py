"""What a sweep has chosen is known to the process that tracks, the others have the defaults (wandb issue 3883)."""

# mypy: ignore-errors
import contextlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Config(dict):
    __getattr__ = dict.__getitem__


DEFAULTS = {"lr": 0.1, "accumulate": 1, "epochs": 10}


def init_tracking(rank: int) -> Config:
    """The agent has started the first process."""
    config = Config(DEFAULTS)
    if rank == 0:
        config.update(lr=0.03, accumulate=2)
    return config


def train_epoch(model, optimizer, config: Config, batches: int, rank: int) -> None:
    for batch_idx in range(batches):
        time.sleep(0.2)
        last = (batch_idx + 1) % config.accumulate == 0
        with contextlib.nullcontext() if last else model.no_sync():
            loss = model(torch.randn(2, 8)).square().mean() / config.accumulate
            loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        print(f"rank {rank} step {batch_idx}", flush=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    config = init_tracking(rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
    for epoch in range(config.epochs):
        train_epoch(model, optimizer, config, batches=8, rank=rank)
        dist.barrier()
        print(f"rank {rank} has ended epoch {epoch}", flush=True)


if __name__ == "__main__":
    main()
