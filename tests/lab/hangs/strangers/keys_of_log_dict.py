"""The values of a dict are averaged over all, and not all have the same keys in it (Lightning issue 19106)."""

# mypy: ignore-errors
import time

import torch
import torch.distributed as dist

CLASSES = {0: ["car", "bus"], 1: ["car", "bus", "tram"], 2: ["car", "bus"]}


def losses_of(rank: int, step: int) -> dict[str, torch.Tensor]:
    """One loss for each class that is in the batch."""
    names = CLASSES[rank] if step >= 5 else CLASSES[0]
    return {f"loss/{name}": torch.tensor([0.5 + step]) for name in names}


def log_dict(values: dict[str, torch.Tensor], world: int) -> dict[str, float]:
    averages = {}
    for name, value in values.items():
        dist.all_reduce(value)
        averages[name] = float(value) / world
    return averages


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        averages = log_dict(losses_of(rank, step), world)
        dist.barrier()
        if rank == 0:
            print(averages, flush=True)


if __name__ == "__main__":
    main()
