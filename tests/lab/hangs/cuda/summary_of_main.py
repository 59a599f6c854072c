"""A decorator lets only the first rank in; what it guards averages over all of them."""

import functools
import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist


def main_only(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def guarded(*values: object) -> None:
        if dist.get_rank() == 0:
            function(*values)

    return guarded


@main_only
def summary(step: int, loss: torch.Tensor) -> None:
    mean = loss.clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    print(f"step {step} mean loss {mean.item():.3f}", flush=True)


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    loss = torch.ones(1, device="cuda")
    for step in range(1000):
        time.sleep(0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        gradient = torch.ones(1 << 18, device="cuda")
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step % 4 == 3:
            summary(step, loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
