"""The first process makes figures of what all have told it, while the others wait for the next step."""

# mypy: ignore-errors
import math
import time

import torch
import torch.distributed as dist


def plot(values: list[float]) -> float:
    end, total = time.monotonic() + 3.5, 0.0
    while time.monotonic() < end:
        total += sum(math.sin(value) for value in values) + sum(math.cos(x * 0.001) for x in range(2000))
        time.sleep(0.002)
    return total


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(1000):
        values = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(values, torch.tensor([float(rank + step)]))
        print(f"rank {rank} step {step}", flush=True)
        if rank == 0:
            plot([float(value) for value in values])


if __name__ == "__main__":
    main()
