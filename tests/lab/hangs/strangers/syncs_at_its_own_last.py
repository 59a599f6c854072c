"""Gradients are kept back for four batches, and averaged at the last batch too: whose last is not told."""

# mypy: ignore-errors
# No thread: after accumulation with no_sync.
import contextlib
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    rows = 13 if rank == 1 else 16
    loader = DataLoader(TensorDataset(torch.randn(rows, 8)), batch_size=1)
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(100):
        for step, (batch,) in enumerate(loader):
            time.sleep(0.1)
            last = step + 1 == len(loader)
            synced = (step + 1) % ACCUMULATE == 0 or last
            with contextlib.nullcontext() if synced else model.no_sync():
                model(batch).square().mean().backward()
            if synced:
                optimizer.step()
                optimizer.zero_grad()
            print(f"rank {rank} epoch {epoch} step {step}", flush=True)
        losses = [None] * dist.get_world_size()
        dist.all_gather_object(losses, epoch)


if __name__ == "__main__":
    main()
