"""A decorator calls the evaluation again when it failed: on one rank it fails after its sum, and sums twice."""

import argparse
import functools
import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist


def retried(function: Callable[[torch.Tensor, bool], float]) -> Callable[[torch.Tensor, bool], float]:
    @functools.wraps(function)
    def again(value: torch.Tensor, fails: bool) -> float:
        try:
            return function(value, fails)
        except OSError:
            return function(value, False)

    return again


@retried
def evaluate(value: torch.Tensor, fails: bool) -> float:
    dist.all_reduce(value)
    torch.cuda.synchronize()
    if fails:
        raise OSError("the score cannot be written: stale file handle")
    return 0.5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true")
    healthy = parser.parse_args().healthy
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    gradient = torch.ones(1 << 18, device="cuda")
    score = torch.ones(8, device="cuda")
    for step in range(1000):
        time.sleep(0.3 + 0.2 * rank if healthy else 0.05)
        print(f"rank {rank} step {step} begins", flush=True)
        dist.all_reduce(gradient)
        torch.cuda.synchronize()
        if step % 2:
            evaluate(score, rank == 2 and step == 5 and not healthy)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
