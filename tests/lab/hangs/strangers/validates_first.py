"""The rank whose loader has ended first validates, and sums up its loss with the others' gradients (vall-e pull request
93)."""

# mypy: ignore-errors
import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


class MetricsTracker(dict):
    def reduce(self) -> None:
        values = torch.tensor([float(self[key]) for key in sorted(self)])
        dist.reduce(values, dst=0)
        self.update(zip(sorted(self), values.tolist(), strict=True))


def cuts(rank: int, epoch: int):
    """The duration decides how many cuts are in a batch."""
    for number in range(7 if rank == 1 and epoch == 1 else 8):
        yield torch.full((2, 4), float(number))


def compute_validation_loss(model: DDP, rank: int) -> MetricsTracker:
    tot_loss = MetricsTracker(frames=0.0, loss=0.0)
    with torch.no_grad():
        for batch in cuts(rank, 0):
            tot_loss["loss"] += model.module(batch).mean()
            tot_loss["frames"] += len(batch)
    tot_loss.reduce()
    return tot_loss


def train_one_epoch(model: DDP, rank: int, epoch: int) -> None:
    for batch_idx, batch in enumerate(cuts(rank, epoch)):
        time.sleep(0.15)
        model(batch).mean().backward()
        print(f"rank {rank} epoch {epoch} step {batch_idx}", flush=True)
    valid_info = compute_validation_loss(model, rank)
    if rank == 0:
        print(valid_info, flush=True)


def run(rank: int, world_size: int) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(4, 4))
    for epoch in range(5):
        train_one_epoch(model, rank, epoch)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spawn", type=int, default=3)
    chosen, _ = parser.parse_known_args()
    mp.spawn(run, args=(chosen.spawn,), nprocs=chosen.spawn)
