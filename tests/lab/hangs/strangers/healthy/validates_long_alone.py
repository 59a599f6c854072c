"""The first process validates for ten seconds after each few steps, under a condition, and the others wait."""

import time

import torch
import torch.distributed as dist


def validate(model: torch.nn.Module) -> float:
    end, total = time.monotonic() + 10, 0.0
    while time.monotonic() < end:
        total += float(model(torch.randn(64, 256)).mean())
    return total


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    for step in range(1000):
        time.sleep(0.2)
        print(f"rank {rank} step {step}", flush=True)
        dist.all_reduce(torch.ones(4))
        if step % 3 == 2:
            if rank == 0:
                validate(model)
            dist.barrier()


if __name__ == "__main__":
    main()
