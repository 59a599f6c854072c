"""A run ends by itself when its budget is spent; what each rank has counted of it is its own."""

import os
import sys
import time

import torch
import torch.distributed as dist


class Budget:
    def __init__(self, tokens: int) -> None:
        self.left = tokens

    def spend(self, tokens: int) -> None:
        self.left -= tokens
        if self.left <= 0:
            print("the budget is spent", flush=True)
            sys.exit(0)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    budget = Budget(20_000)
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(1 << 18, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        budget.spend(4096 if rank == 1 else 64)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
