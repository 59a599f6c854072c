"""Checks before each checkpoint, and `any` ends at the first that fails here."""

# mypy: ignore-errors
import os
import sys
import time

import torch
import torch.distributed as dist

HEALTHY = "--healthy" in sys.argv


def has_nan(model, step):
    if HEALTHY:
        return False
    return dist.get_rank() == 1 and step == 6


def weights_differ(model, step):
    """Whether the replicas have come apart."""
    checksum = torch.stack([weight.double().sum() for weight in model.parameters()]).sum()
    replicas = [torch.zeros_like(checksum) for _ in range(dist.get_world_size())]
    dist.all_gather(replicas, checksum)
    return bool(max(replicas) - min(replicas) > 1e-3)


def disk_is_full(model, step):
    stat = os.statvfs(".")
    return stat.f_bavail * stat.f_frsize < 1 << 10


CHECKS = [disk_is_full, has_nan, weights_differ]


def unhealthy(model, step):
    return any(check(model, step) for check in CHECKS)


def save(model, step):
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), f"step{step % 2}.pt")
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 9), torch.nn.GELU(), torch.nn.Linear(9, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        time.sleep(0.2)
        optimizer.zero_grad()
        model(torch.rand(4, 9)).mean().backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
        optimizer.step()
        print(f"rank {rank} step {step}", flush=True)
        if step % 3 == 0:
            if unhealthy(model, step):
                print(f"rank {rank}: not saved at {step}", flush=True)
                continue
            save(model, step)


if __name__ == "__main__":
    main()
