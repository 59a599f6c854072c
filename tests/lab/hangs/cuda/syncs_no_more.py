"""Weights are averaged after some local steps; one rank's plan has none left, and it trains on for itself."""

import os
import time

import torch
import torch.distributed as dist


class Plan:
    def __init__(self, until: int) -> None:
        self.until = until

    def is_due(self, step: int) -> bool:
        return step < self.until


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    plan = Plan(4 if rank == 1 else 10_000)
    weight = torch.ones(1 << 18, device="cuda")
    for step in range(100_000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        if plan.is_due(step):
            dist.all_reduce(weight, op=dist.ReduceOp.AVG)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
