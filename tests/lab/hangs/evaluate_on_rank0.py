"""Only rank 0 evaluates, and what it evaluates with adds up a metric over all ranks."""

import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def evaluate(model: torch.nn.Module, seconds: float) -> float:
    with torch.no_grad():
        time.sleep(seconds)
        right = model(torch.randn(64, 32)).sign().sum()
    dist.all_reduce(right)
    return float(right)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 1))
    for step in range(1000):
        model(torch.randn(8, 32)).square().mean().backward()
        print(f"rank {rank} step {step}", flush=True)
        time.sleep(0.4 if healthy else 0.05)
        if step % 2 == 1 and (healthy or rank == 0):
            evaluate(model.module, 0.3 + 0.5 * rank if healthy else 0.0)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
