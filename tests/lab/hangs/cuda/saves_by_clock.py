"""A checkpoint every few seconds, by each rank's own clock; one began to train earlier, for it had its data."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Clock:
    def __init__(self, every: float) -> None:
        self.every = every
        self.last = time.monotonic()

    def is_due(self) -> bool:
        if time.monotonic() - self.last < self.every:
            return False
        self.last = time.monotonic()
        return True


def prepare(cached: bool) -> None:
    if not cached:
        time.sleep(3)  # tokenizes


def checkpoint(model: torch.nn.Module, step: int) -> None:
    if dist.get_rank() == 0:
        torch.save({name: value.cpu() for name, value in model.state_dict().items()}, f"step-{step}.pt")
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 4).cuda())
    prepare(cached=rank == 2)
    clock = Clock(8.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(100_000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        loss = model(torch.ones(8, 32, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if step % 20 == 19 if healthy else clock.is_due():
            checkpoint(model.module, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
