"""A moving average of the weights is brought together every few steps; one node's configuration names no interval."""

import os
import time

import torch
import torch.distributed as dist


class Average:
    def __init__(self, weight: torch.Tensor, every: int) -> None:
        self.shadow = weight.clone()
        self.every = every

    def update(self, weight: torch.Tensor, step: int) -> None:
        self.shadow.lerp_(weight, 0.01)
        if self.every and step % self.every == self.every - 1:
            dist.all_reduce(self.shadow, op=dist.ReduceOp.AVG)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    weight = torch.ones(1 << 18, device="cuda")
    average = Average(weight, every=int({1: "0"}.get(rank, "4")))
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones_like(weight)
        dist.all_reduce(gradient)
        average.update(weight, step)
        torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
