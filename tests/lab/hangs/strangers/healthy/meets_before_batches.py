"""All meet in a monitored barrier before each batch, and one process reads its batches slowly (CosyVoice issue 180)."""

# mypy: ignore-errors
import time
from datetime import timedelta

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    group = dist.new_group(backend="gloo", timeout=timedelta(minutes=5))
    for step in range(10_000):
        time.sleep(0.1 if step < 2 or rank == 0 else 4.0 + step % 3)
        dist.monitored_barrier(group=group, timeout=timedelta(minutes=5))
        dist.all_reduce(torch.ones(8))
        print(f"rank {rank} step {step}", flush=True)


if __name__ == "__main__":
    main()
