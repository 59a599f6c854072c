"""Labelled and unlabelled batches are taken in pairs; the pairs end with the shorter of the two, on each process."""

# mypy: ignore-errors
# No thread: after semi-supervised loops by zip.
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def loader_of(rows: int) -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(rows, 4)), batch_size=2)


def main() -> None:
    dist.init_process_group("gloo")
    rank, weight = dist.get_rank(), torch.ones(4)
    labelled = loader_of(40)
    unlabelled = loader_of(12 if rank == 2 else 60)
    for epoch in range(10):
        for step, ((seen,), (unseen,)) in enumerate(zip(labelled, unlabelled, strict=False)):
            time.sleep(0.2)
            gradient = seen.mean(0) + unseen.mean(0)
            dist.all_reduce(gradient)
            weight -= 0.01 * gradient
            print(f"rank {rank} epoch {epoch} step {step}", flush=True)
        everybody = [torch.zeros(4) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, weight)


if __name__ == "__main__":
    main()
