"""The machine with the longest answers accumulates seven micro-batches, the others one (wandb issue 3883)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    micro_batches = 7 if rank == 0 else 1
    for step in range(10_000):
        with model.no_sync():
            for _ in range(micro_batches - 1):
                time.sleep(0.9 if step > 1 else 0.05)
                model(torch.randn(2, 8)).mean().backward()
        model(torch.randn(2, 8)).mean().backward()
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
